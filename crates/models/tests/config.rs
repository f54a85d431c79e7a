//! Configurations: TOML in and out, every problem named, every option reaching the network.

use std::collections::BTreeSet;
use std::ops::Bound;

use graph_transformer_models::config::{Kind, ProblemKind};
use graph_transformer_models::{Config, ConfigError, PublishedEncoding, PublishedSet, parameter_name};
use gt_graph::{FeatureSchema, Level, Schema, TargetKind, TargetSchema};
use gt_nn::{Branch, Channels, Clamp, Gate, HeadInput, Jump, Loss, Network, Norm, Parameters, Readout, Role};

fn molecules() -> Schema {
    PublishedSet::Zinc.schema()
}

fn targets(level: Level, kind: TargetKind, classes: &[usize]) -> Schema {
    Schema { target: Some(TargetSchema::new(level, kind, classes)), ..molecules() }
}

fn set(settings: &[&str]) -> Result<Config, ConfigError> {
    Config::from_toml_with("", &settings.iter().map(|s| s.to_string()).collect::<Vec<_>>())
}

/// The problems of wrong settings, with their keys.
fn problems(settings: &[&str]) -> Vec<(String, ProblemKind)> {
    let error = set(settings).unwrap_err();
    error.problems().iter().map(|problem| (problem.key.clone().unwrap(), problem.kind.clone())).collect()
}

fn network(settings: &[&str]) -> Network {
    set(settings).unwrap().network(&molecules()).unwrap()
}

#[test]
fn every_published_configuration_survives_toml() {
    for published in [PublishedSet::Zinc, PublishedSet::Pattern, PublishedSet::Cluster] {
        for encoding in [PublishedEncoding::None, PublishedEncoding::Laplacian, PublishedEncoding::WeisfeilerLehman] {
            let config = published.config(encoding);
            let again = Config::from_toml(&config.to_toml()).unwrap();
            assert_eq!(again, config);
            assert_eq!(again.network(&published.schema()).unwrap(), config.network(&published.schema()).unwrap());
        }
    }
}

#[test]
fn kinds_reach_the_network_and_keys_of_others_are_told() {
    let of = |kind: &str, more: &[&str]| network(&[&[&format!("model.kind={kind}") as &str], more].concat());
    let summary = |n: &Network| (n.branches[0], n.edge_stream, n.channels.heads(), n.edge.categorical.len());
    assert_eq!(summary(&of("transformer", &[])), (Branch::Attention, true, 8, 1));
    // Without heads any width is fine; molecules have edge features, which only gated layers read.
    assert_eq!(summary(&of("gcn", &["model.width=7"])), (Branch::Gcn, false, 1, 0));
    assert_eq!(summary(&of("gcn-mean", &["model.width=7"])), (Branch::GcnMean, false, 1, 0));
    assert_eq!(summary(&of("gat", &[])), (Branch::Gat, false, 8, 0));
    assert_eq!(summary(&of("gatedgcn", &["model.width=7"])), (Branch::GatedGcn, true, 1, 1));
    let bare = Schema { edge: FeatureSchema::default(), ..molecules() };
    assert!(set(&["model.kind=gatedgcn"]).unwrap().network(&bare).unwrap().edge.constant);
    let of_gcn = ["model.kind=gcn", "model.edges=true", "model.heads=4", "model.gate=scalar", "model.variant=paper"];
    assert_eq!(
        problems(&of_gcn),
        [
            ("model.edges".into(), ProblemKind::FixedEdgeStream { layers: "gcn".into(), always: false }),
            ("model.heads".into(), ProblemKind::NoHeads("gcn".into())),
            ("model.variant".into(), ProblemKind::OnlyTransformer(Kind::Gcn)),
            ("model.gate".into(), ProblemKind::OnlyTransformer(Kind::Gcn)),
        ]
    );
    assert_eq!(
        set(&of_gcn).unwrap_err().to_string(),
        "`model.edges`: gcn has no edge stream\n\
         `model.heads`: gcn has no heads; leave the key out\n\
         `model.variant`: it applies only to the transformer, but `model.kind` is gcn\n\
         `model.gate`: it applies only to the transformer, but `model.kind` is gcn"
    );
    assert_eq!(
        set(&["model.kind=gatedgcn", "model.edges=false"]).unwrap_err().to_string(),
        "`model.edges`: gatedgcn always has an edge stream"
    );
    assert_eq!(
        problems(&["model.kind=gat", "model.heads=5"]),
        [("model.heads".into(), ProblemKind::Heads { heads: 5, width: 64 })]
    );
    let known = ["transformer", "gcn", "gcn-mean", "gat", "gatedgcn"].map(String::from).to_vec();
    assert_eq!(
        problems(&["model.kind=sage"]),
        [("model.kind".into(), ProblemKind::UnknownName { found: "sage".into(), known })]
    );
    // Files of transformers do not name their kind, others do, and both are understood.
    assert!(!Config::default().to_toml().contains("kind"));
    let gat = set(&["model.kind=gat"]).unwrap();
    assert!(gat.to_toml().contains("kind = \"gat\""));
    assert_eq!(Config::from_toml(&gat.to_toml()).unwrap(), gat);
}

#[test]
fn branches_reach_the_network_and_do_not_mix_with_kinds() {
    let of = |settings: &[&str]| network(settings);
    let summary = |n: &Network| (n.branches.clone(), n.feed_forward, n.edge_stream, n.embeds_edges());
    use Branch::{Attention, GatedGcn, Gcn, GcnMean, Gine};
    let both = of(&["model.branches=[\"attention\", \"gine\"]"]);
    assert_eq!(summary(&both), (vec![Attention, Gine], true, true, true));
    let shared = of(&["model.branches=[\"attention\", \"gine\"]", "model.edges=false"]);
    assert_eq!(summary(&shared), (vec![Attention, Gine], true, false, true));
    assert_eq!(shared.edge.categorical, both.edge.categorical);
    assert_eq!(summary(&of(&["model.branches=[\"gine\"]"])), (vec![Gine], true, false, true));
    assert_eq!(summary(&of(&["model.branches=[\"gcn\", \"gcn-mean\"]"])), (vec![Gcn, GcnMean], false, false, false));
    let gated = of(&["model.kind=gatedgcn", "model.feed_forward=true"]);
    assert_eq!(summary(&gated), (vec![GatedGcn], true, true, true));
    // A list of the branch of a kind is that kind.
    for (kind, list) in [("transformer", "attention"), ("gat", "gat"), ("gatedgcn", "gatedgcn")] {
        assert_eq!(of(&[&format!("model.kind={kind}")]), of(&[&format!("model.branches=[\"{list}\"]")]), "{kind}");
    }
    for (settings, complaint) in [
        (&["model.branches=[]"][..], "`model.branches`: a layer has at least one branch"),
        (&["model.branches=[\"gcn\", \"gcn\"]"], "`model.branches`: gcn is listed twice"),
        (
            &["model.branches=[\"gcn\"]", "model.kind=gat"],
            "`model.kind`: `model.branches` says what layers are made of",
        ),
        (&["model.branches=[\"gin\"]"], "`model.branches`: there is no `gin`; there are `attention`, `gcn`,"),
        (&["model.branches=\"gine\""], "`model.branches`: a list of names is expected"),
        (&["model.branches=[\"gine\"]", "model.edges=true"], "`model.edges`: gine has no edge stream"),
        (
            &["model.branches=[\"gine\", \"gatedgcn\"]", "model.edges=false"],
            "`model.edges`: gine + gatedgcn always has",
        ),
        (&["model.branches=[\"gine\"]", "model.clamp=logits"], "`model.clamp`: it applies only to attention"),
        (&["model.branches=[\"attention\"]", "model.variant=paper"], "`model.variant`: it applies only to `model.kind"),
    ] {
        let found = set(settings).unwrap_err().to_string();
        assert!(found.starts_with(complaint), "{settings:?}: {found}");
    }
    let config = set(&["model.branches=[\"attention\", \"gine\"]", "model.feed_forward=false"]).unwrap();
    assert!(config.to_toml().contains("branches = [\"attention\", \"gine\"]\nfeed_forward = false"));
    assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
}

#[test]
fn names_of_parameters_differ_in_every_sum_of_branches() {
    for first in Branch::ALL {
        for second in Branch::ALL.into_iter().filter(|second| *second != first) {
            for norm in [Norm::Batch, Norm::Layer] {
                let edge_stream = [first, second].iter().any(|branch| branch.needs_edge_stream());
                let base = Network { norm, edge_stream, ..Network::new(Channels::new(8, 2), 2) };
                let network = base.with_branches(&[first, second], true);
                let list = Parameters::new(&network).list().to_vec();
                let names: BTreeSet<String> = list.iter().map(|p| parameter_name(&network, p.role())).collect();
                assert_eq!(names.len(), list.len(), "{first:?} + {second:?}");
            }
        }
    }
}

#[test]
fn links_are_predicted_from_pairs_with_one_logit() {
    let shape = targets(Level::Edge, TargetKind::Class, &[2]);
    let links = set(&["data.task=links"]).unwrap();
    let network = links.network(&shape).unwrap();
    // The shape has edge features, so that targets of edges would be read from their stream.
    assert_eq!((network.reads, network.outputs(), network.edge_stream), (HeadInput::Products, 1, true));
    let reads =
        |settings: &[&str]| set(&[&["data.task=links"], settings].concat()).unwrap().network(&shape).unwrap().reads;
    assert_eq!(reads(&["links.directed=true"]), HeadInput::Pairs);
    assert_eq!(reads(&["model.pairs=ends"]), HeadInput::Pairs);
    let complaint = set(&["data.task=links", "links.directed=true", "model.pairs=product"]).unwrap_err().to_string();
    assert!(complaint.starts_with("`model.pairs`: a product does not distinguish directions"), "{complaint}");
    assert_eq!(links.loss(&shape).unwrap(), Loss::Bce);
    assert_eq!(set(&[]).unwrap().network(&shape).unwrap().reads, HeadInput::Edges);
    assert!(links.to_toml().contains("[links]\nnegatives = 1\nhidden = "));
    let directed = set(&["data.task=links", "links.directed=true", "links.hidden=0"]).unwrap();
    assert_eq!(Config::from_toml(&directed.to_toml()).unwrap(), directed);
    let complaint = set(&["links.negatives=0", "links.hidden=1"]).unwrap_err().to_string();
    assert_eq!(
        complaint,
        "`links.negatives`: 0; it must be 1 to 1000\n`links.hidden`: 1; it must be at least 0 and below 1"
    );
    let complaint = set(&["links.negative=2", "data.tasks=links", "link.directed=true"]).unwrap_err().to_string();
    for meant in ["`links.negatives`?", "`data.task`?", "`links`?"] {
        assert!(complaint.contains(&format!("did you mean {meant}")), "{complaint}");
    }
    let complaint = set(&["data.task=links", "train.loss=l1"]).unwrap().network(&shape).unwrap_err().to_string();
    assert!(complaint.contains("`train.loss`: l1 does not fit the data, which has links to predict"), "{complaint}");
}

#[test]
fn every_option_survives_toml() {
    let settings = [
        "model.variant=paper",
        "model.norm=none",
        "model.residual=false",
        "model.graph=full",
        "model.edges=true",
        "model.encoding=random-walk",
        "model.readout=max",
        "model.jump=concat",
        "model.pairs=ends",
        "model.dropout=0.1",
        "model.head=[12, 5]",
        "model.gate=per-channel",
        "model.clamp=exponentials",
        "model.input_bias=false",
        "model.symmetric_edges=true",
        "optimizer.name=adamw",
        "schedule.name=cosine",
        "train.loss=mse",
        "train.sign_flip=graph",
        "data.file=some folder/my data.parquet",
        "data.split=[0.5, 0.25, 0.25]",
    ];
    let config = set(&settings).unwrap();
    assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
    for setting in settings {
        assert_ne!(set(&[setting]).unwrap(), Config::default(), "{setting} changes nothing");
    }
}

#[test]
fn wrong_keys_name_the_nearest_right_one() {
    for (wrong, sentence) in [
        ("model.layer=3", "`model.layer`: no such key; did you mean `model.layers`?"),
        ("modle.layers=3", "`modle`: no such key; did you mean `model`?"),
        ("optimiser.lr=1e-3", "`optimiser`: no such key; did you mean `optimizer`?"),
        ("train.lr=1e-3", "`train.lr`: no such key; did you mean `optimizer.lr`?"),
        ("model.symetric_edge=true", "`model.symetric_edge`: no such key; did you mean `model.symmetric_edges`?"),
        ("train.colour_of_the_sky=blue", "`train.colour_of_the_sky`: no such key"),
    ] {
        assert_eq!(set(&[wrong]).unwrap_err().to_string(), sentence);
    }
    let only = |error: ConfigError| error.problems()[0].kind.clone();
    assert_eq!(only(set(&["lr=3"]).unwrap_err()), ProblemKind::Setting);
    assert_eq!(only(Config::from_toml("model = 3").unwrap_err()), ProblemKind::NotASection("model".into()));
    assert!(matches!(only(Config::from_toml("[model").unwrap_err()), ProblemKind::Toml(_)));
    let nearest = Some("optimizer.lr".into());
    assert_eq!(only(set(&["train.lr=1e-3"]).unwrap_err()), ProblemKind::UnknownKey { nearest });
}

#[test]
fn a_wrong_size_of_an_encoding_is_told_without_the_encoding() {
    let error = set(&["model.encoding=none", "model.encoding_size=0"]).unwrap_err();
    assert_eq!(error.to_string(), "`model.encoding_size`: 0; it must be 1 to 1024");
}

#[test]
fn columns_in_two_roles_and_targets_of_links_are_told() {
    let problem = |settings: &[&str]| set(settings).unwrap_err().to_string();
    let twice = problem(&["data.target=[\"a\"]", "data.ignore=[\"b\", \"a\"]"]);
    assert_eq!(twice, "`data.target`: `a` is also in `data.ignore`; name it once");
    let links = problem(&["data.target=[\"a\"]", "data.task=links"]);
    assert!(links.starts_with("`data.target`: links are predicted"), "{links}");
    assert!(problem(&["data.features=a"]).contains("a list of names is expected"));
    let old = Config::from_toml("[data]\ntask = \"targets\"").unwrap();
    assert_eq!(old, Config::default(), "files of earlier versions are read");
}

#[test]
fn all_problems_are_told_at_once() {
    let wrong = [
        "model.width=64",
        "model.heads=7",
        "model.dropout=1",
        "model.encoding=laplacian",
        "model.encoding_size=0",
        "model.head=[0]",
        "optimizer.lr=0",
        "optimizer.beta1=1.0",
        "optimizer.clip=-1",
        "schedule.factor=1.5",
        "schedule.min_lr=1",
        "train.batch=0",
        "train.hours=-2",
        "data.split=[0.9, 0.2, 0.1]",
    ];
    let outside = |value, low, high| ProblemKind::OutOfRange { value, limits: (low, high) };
    let (zero, one) = (Bound::Included(0.0), Bound::Excluded(1.0));
    let (above_zero, finite) = (Bound::Excluded(0.0), Bound::Excluded(f64::INFINITY));
    let one_to = |high| outside(0.0, Bound::Included(1.0), Bound::Included(high));
    assert_eq!(
        problems(&wrong),
        [
            ("data.split", ProblemKind::Shares([0.9, 0.2, 0.1])),
            ("model.heads", ProblemKind::Heads { heads: 7, width: 64 }),
            ("model.encoding_size", one_to(1024.0)),
            ("model.dropout", outside(1.0, zero, one)),
            ("model.head", one_to(65536.0)),
            ("optimizer.lr", outside(0.0, above_zero, finite)),
            ("optimizer.beta1", outside(1.0, zero, one)),
            ("optimizer.clip", outside(-1.0, zero, finite)),
            ("schedule.factor", outside(1.5, above_zero, one)),
            ("schedule.min_lr", ProblemKind::MinRate { min_lr: 1.0, lr: 0.0 }),
            ("train.batch", outside(0.0, Bound::Included(1.0), Bound::Unbounded)),
            ("train.hours", outside(-2.0, zero, finite)),
        ]
        .map(|(key, kind)| (key.to_owned(), kind))
    );
    assert_eq!(
        set(&wrong).unwrap_err().to_string(),
        "`data.split`: [0.9, 0.2, 0.1]; three shares above 0 that add up to 1 are expected\n\
         `model.heads`: 7 heads do not divide the width 64\n\
         `model.encoding_size`: 0; it must be 1 to 1024\n\
         `model.dropout`: 1; it must be at least 0 and below 1\n\
         `model.head`: 0; it must be 1 to 65536\n\
         `optimizer.lr`: 0; it must be a finite number, above 0\n\
         `optimizer.beta1`: 1; it must be at least 0 and below 1\n\
         `optimizer.clip`: -1; it must be a finite number, at least 0\n\
         `schedule.factor`: 1.5; it must be above 0 and below 1\n\
         `schedule.min_lr`: 1; it must be at least 0 and below optimizer.lr = 0\n\
         `train.batch`: 0; it must be at least 1\n\
         `train.hours`: -2; it must be a finite number, at least 0"
    );
    let one_problem = |setting| problems(&[setting]).pop().unwrap();
    assert_eq!(one_problem("model.width=0"), ("model.width".into(), one_to(65536.0)));
    assert_eq!(one_problem("model.heads=0"), ("model.heads".into(), one_to(65536.0)));
    let gate = problems(&["model.edges=false", "model.gate=scalar"]);
    assert_eq!(gate, [("model.gate".into(), ProblemKind::NoEdgeStream)]);
    let error = set(&["model.norm=group"]).unwrap_err().to_string();
    assert!(error.contains("`model.norm`: there is no `group`; there are `batch`, `layer`, `none`"), "{error}");
    let (expected, found) = ("a whole number".into(), "string \"many\"".into());
    let wrong = ProblemKind::WrongType { expected, found };
    assert_eq!(one_problem("model.layers=many"), ("model.layers".into(), wrong));
    // Keys that do not exist do not hide values that are wrong, nor the other way round.
    let problems = problems(&["model.layerz=3", "optimizer.lr=-1", "schedule.min_lr=0", "foo.bar=1"]);
    let keys: Vec<&str> = problems.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["foo", "model.layerz", "optimizer.lr", "schedule.min_lr"]);
    let error = set(&["model.layerz=3", "train.epochs=-1"]).unwrap_err().to_string();
    let negative = "`train.epochs`: a whole number that is not negative is expected, not the integer `-1`";
    assert!(error.contains("model.layerz") && error.contains(negative), "{error}");
}

#[test]
fn wrong_types_hide_no_other_problem() {
    let text = "\
        [data]\nsplit = [0.8, \"some\", 0.1]\n\
        [model]\nlayers = \"many\"\nlayerz = 3\ndropout = 1.5\n\
        [train]\nskip_bad_steps = 1\n";
    assert_eq!(
        Config::from_toml(text).unwrap_err().to_string(),
        "`model.layerz`: no such key; did you mean `model.layers`?\n\
         `data.split`: a number is expected, not the string \"some\"\n\
         `model.layers`: a whole number is expected, not the string \"many\"\n\
         `train.skip_bad_steps`: true or false is expected, not the integer `1`\n\
         `model.dropout`: 1.5; it must be at least 0 and below 1"
    );
    // Settings are changed keys like others.
    let found = problems(&["lr=3", "model.norm=group", "model.head=4", "data.split=[1.0]", "train.batch=0"]);
    let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["lr=3", "data.split", "model.head", "model.norm", "train.batch"]);
    let expected = |text: &str, found: &str| ProblemKind::WrongType { expected: text.into(), found: found.into() };
    assert_eq!(found[2].1, expected("a list of whole numbers", "integer `4`"));
    let error = Config::from_toml_with("model = 3", &["model.layers=3".into(), "train.batch=0".into()]).unwrap_err();
    let keys: Vec<_> = error.problems().iter().filter_map(|problem| problem.key.as_deref()).collect();
    assert_eq!(keys, ["model", "train.batch"]);
}

#[test]
fn a_problem_causes_no_other_problem() {
    // Each value fits the value that is meant, but not the default.
    for (settings, wrong) in [
        (["model.width=wide", "model.heads=7"], "model.width"),
        (["model.widht=49", "model.heads=7"], "model.widht"),
        (["model.heads=few", "model.width=49"], "model.heads"),
        (["model.kind=gtc", "model.heads=7"], "model.kind"),
        (["optimizer.lr=fast", "schedule.min_lr=0.1"], "optimizer.lr"),
        (["optimiser.lr=1", "schedule.min_lr=0.1"], "optimiser"),
    ] {
        let keys: Vec<String> = problems(&settings).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [wrong], "{settings:?}");
    }
    // The right key has its own value.
    let keys: Vec<String> = problems(&["train.lr=1", "optimizer.lr=-1"]).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys[..2], ["train.lr", "optimizer.lr"]);
}

#[test]
fn the_papers_variant_sets_each_point_and_each_point_can_be_set_alone() {
    let points = |n: &Network| (n.gate, n.clamp, n.node.bias, n.edge.bias, n.symmetric_edges, n.head.clone());
    let published = network(&[]);
    assert_eq!(points(&published), (Gate::PerChannel, Clamp::Logits, false, false, false, vec![32, 16, 1]));
    let paper = network(&["model.variant=paper"]);
    assert_eq!(points(&paper), (Gate::Scalar, Clamp::Exponentials, true, true, true, vec![64, 1]));
    let has_bias = |n: &Network| Parameters::new(n).list().iter().any(|p| matches!(p.role(), Role::InputBias(_)));
    assert!(has_bias(&paper) && !has_bias(&published));
    for (key, of_published, of_paper) in [
        ("gate", "per-channel", "scalar"),
        ("clamp", "logits", "exponentials"),
        ("input_bias", "false", "true"),
        ("symmetric_edges", "false", "true"),
        ("head", "[32, 16]", "[64]"),
    ] {
        let one = network(&[&format!("model.{key}={of_paper}")]);
        assert_ne!(points(&one), points(&published), "{key}");
        let back = network(&["model.variant=paper", &format!("model.{key}={of_published}")]);
        assert_ne!(points(&back), points(&paper), "{key}");
    }
}

#[test]
fn options_reach_the_network() {
    assert_eq!(network(&["model.norm=layer"]).norm, Norm::Layer);
    assert!(!network(&["model.residual=false"]).residual);
    assert_eq!(network(&["model.layers=3", "model.width=24", "model.heads=3"]).channels.per_head(), 8);
    assert_eq!(network(&["model.readout=sum"]).reads, HeadInput::Graphs(Readout::Sum));
    assert_eq!(network(&["model.jump=concat"]).jump, Jump::Concat);
    assert_eq!(network(&["model.dropout=0.25", "model.input_dropout=0.5"]).input_dropout, 0.5);
    assert!(network(&[]).edge_stream && !network(&["model.edges=false"]).edge_stream);
    assert_eq!(network(&["model.encoding=laplacian", "model.encoding_size=5"]).node.laplacian, 5);
    assert_eq!(network(&["model.encoding=random-walk", "model.encoding_size=6"]).node.random_walk, 6);
    assert_eq!(network(&["model.encoding=wl", "model.roles=37"]).node.roles, Some(37));
    // Narrow heads keep at least one channel.
    assert_eq!(network(&["model.width=1", "model.heads=1"]).head, [1, 1, 1]);
}

#[test]
fn data_decides_about_inputs_heads_and_losses() {
    let bare = Schema { node: FeatureSchema::default(), edge: FeatureSchema::default(), ..molecules() };
    let network = Config::default().network(&bare).unwrap();
    assert!(network.node.constant && !network.edge_stream);
    let edges = targets(Level::Edge, TargetKind::Class, &[3]);
    let reads = |settings: &[&str]| set(settings).unwrap().network(&edges).unwrap().reads;
    assert_eq!(reads(&[]), HeadInput::Edges);
    for other in ["model.edges=false", "model.graph=full", "model.pairs=ends"] {
        assert_eq!(reads(&[other]), HeadInput::Pairs, "{other}");
    }
    for (name, kind, columns, loss, outputs) in [
        ("auto", TargetKind::Float, &[0, 0][..], Loss::L1, 2),
        ("mse", TargetKind::Float, &[0], Loss::Mse, 1),
        ("auto", TargetKind::Class, &[6], Loss::CrossEntropy { weighted: true }, 6),
        ("cross-entropy", TargetKind::Class, &[6], Loss::CrossEntropy { weighted: false }, 6),
        ("auto", TargetKind::Class, &[2, 2, 1], Loss::Bce, 3),
        ("bce", TargetKind::Class, &[2], Loss::Bce, 1),
    ] {
        let config = set(&[&format!("train.loss={name}")]).unwrap();
        let data = targets(Level::Node, kind, columns);
        assert_eq!(config.loss(&data).unwrap(), loss);
        assert_eq!(config.network(&data).unwrap().outputs(), outputs);
    }
    // A batch may well hold graphs of one class only, whose weight would be 0.
    let graphs = targets(Level::Graph, TargetKind::Class, &[6]);
    assert_eq!(Config::default().loss(&graphs).unwrap(), Loss::CrossEntropy { weighted: false });
    for (name, kind, columns, found) in [
        (
            "cross-entropy",
            TargetKind::Float,
            &[0][..],
            "1 real-valued target; to make classes of whole numbers, set data.task = \"classification\" (--task classification)",
        ),
        (
            "l1",
            TargetKind::Class,
            &[4],
            "one target of 4 classes; to predict the numbers themselves, set data.task = \"regression\" (--task regression)",
        ),
        (
            "bce",
            TargetKind::Class,
            &[3],
            "one target of 3 classes; bce is for targets of two classes, auto chooses cross-entropy",
        ),
    ] {
        let error = set(&[&format!("train.loss={name}")]).unwrap().network(&targets(Level::Graph, kind, columns));
        let error = error.unwrap_err().to_string();
        assert_eq!(error, format!("`train.loss`: {name} does not fit the data, which has {found}"));
    }
    let several = targets(Level::Graph, TargetKind::Class, &[3, 2]);
    let error = Config::default().network(&several).unwrap_err().to_string();
    assert!(error.starts_with("`data.target`: ") && error.contains("`y0` with 3 classes"), "{error}");
}
