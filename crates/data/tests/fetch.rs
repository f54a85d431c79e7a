//! Downloads from a server on this machine.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use graph_transformer_data::fetch::{
    Content, DownloadLimits, Progress, ZincSource, download, fetch_zinc, zinc_from_file,
};
use graph_transformer_data::{SbmSet, SbmSizes, read, write};
use gt_testing::shared;

/// Serves byte strings by path, with ranges and entity tags. Each file's connection may be cut
/// once, after a number of bytes. It may also stall at a number of bytes, or never end.
struct Server {
    address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    files: HashMap<String, Vec<u8>>,
    cut: HashMap<String, usize>,
    stall: HashMap<String, usize>,
    endless: HashSet<String>,
    log: Vec<(String, Option<usize>, u16)>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || answer(stream, &state));
            }
        });
        Self { address, state }
    }

    fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.state.lock().unwrap().files.insert(path.into(), bytes.into());
    }

    fn cut(&self, path: &str, after: usize) {
        self.state.lock().unwrap().cut.insert(path.into(), after);
    }

    /// Sends no byte of a file from this one on, and keeps the connection; before 0 no header.
    fn stall(&self, path: &str, at: Option<usize>) {
        let stall = &mut self.state.lock().unwrap().stall;
        match at {
            Some(at) => stall.insert(path.into(), at),
            None => stall.remove(path),
        };
    }

    fn never_end(&self, path: &str) {
        self.state.lock().unwrap().endless.insert(path.into());
    }

    fn log(&self) -> Vec<(String, Option<usize>, u16)> {
        self.state.lock().unwrap().log.clone()
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    let path = request.split(' ').nth(1).unwrap_or("/").to_owned();
    let headers: HashMap<String, String> = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(": ").map(|(k, v)| (k.to_lowercase(), v.to_owned())))
        .collect();
    let (file, cut, stall, endless) = {
        let mut state = state.lock().unwrap();
        let (file, cut) = (state.files.get(&path).cloned(), state.cut.remove(&path));
        (file, cut, state.stall.get(&path).copied(), state.endless.contains(&path))
    };
    if endless {
        let _ = stream.write_all(b"HTTP/1.1 200 X\r\nConnection: close\r\n\r\n");
        while stream.write_all(&[b'x'; 1 << 12]).is_ok() {}
        return;
    }
    let asked = headers.get("range").and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    let Some(file) = file else {
        state.lock().unwrap().log.push((path, asked, 404));
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return;
    };
    let tag = format!("\"{}-{}\"", file.len(), file.iter().map(|&b| u64::from(b)).sum::<u64>());
    let start = asked.filter(|_| headers.get("if-range") == Some(&tag));
    let status = match start {
        Some(start) if start >= file.len() => 416,
        Some(_) => 206,
        None => 200,
    };
    state.lock().unwrap().log.push((path, asked, status));
    let range = match status {
        206 => format!("Content-Range: bytes {}-{}/{}\r\n", start.unwrap(), file.len() - 1, file.len()),
        416 => format!("Content-Range: bytes */{}\r\n", file.len()),
        _ => String::new(),
    };
    let body = &file[start.unwrap_or(0).min(file.len())..];
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nETag: {tag}\r\n{range}Connection: close\r\n\r\n",
        body.len()
    );
    if stall == Some(0) {
        hold();
    }
    if let Some(at) = stall {
        let sent = &body[..at.saturating_sub(start.unwrap_or(0)).min(body.len())];
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(sent));
        hold();
    }
    let sent = cut.unwrap_or(body.len()).min(body.len());
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body[..sent]));
}

/// Keeps a connection until the test is over.
fn hold() -> ! {
    loop {
        std::thread::park();
    }
}

/// Bytes between the marks of a Parquet file.
fn bytes(count: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..count).map(|i| (i * i % 251) as u8).collect();
    bytes[..4].copy_from_slice(b"PAR1");
    bytes[count - 4..].copy_from_slice(b"PAR1");
    bytes
}

/// Downloads what looks like a Parquet file.
fn fetch(url: &str, path: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> graph_transformer_data::Result<()> {
    download(url, path, &DownloadLimits::new(Content::Parquet), progress)
}

#[test]
fn a_broken_connection_is_taken_up_where_it_ended() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.bin");
    server.put("/file", bytes(300_000));
    server.cut("/file", 100_000);
    let mut last = 0;
    fetch(&format!("{}/file", server.address), &path, &mut |p| last = p.done).unwrap();
    assert_eq!(last, 300_000);
    assert!(std::fs::read(&path).unwrap() == bytes(300_000));
    assert_eq!(server.log()[..], [("/file".into(), None, 200), ("/file".into(), Some(100_000), 206)]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the file stays");
}

#[test]
fn an_interrupted_run_continues_later_unless_the_file_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    for changed in [false, true] {
        let server = Server::start();
        let path = folder.path().join(format!("{changed}.bin"));
        let url = format!("{}/file", server.address);
        server.put("/file", bytes(200_000));
        // The first run ends inside the download, as if killed.
        server.cut("/file", 50_000);
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            fetch(&url, &path, &mut |p| {
                if p.done >= 50_000 {
                    std::panic::resume_unwind(Box::new("killed"))
                }
            })
        }));
        assert!(run.is_err() && !path.exists());
        if changed {
            server.put("/file", bytes(150_000));
        }
        fetch(&url, &path, &mut |_| {}).unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes(if changed { 150_000 } else { 200_000 }));
        let (_, asked, status) = server.log().last().unwrap().clone();
        assert_eq!((asked, status), (Some(50_000), if changed { 200 } else { 206 }));
    }
}

#[test]
fn refusals_are_told_and_leave_no_file() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let url = format!("{}/missing", server.address);
    let message = fetch(&url, &path, &mut |_| {}).unwrap_err().to_string();
    assert_eq!(message, format!("{url}: the server answered 404 Not Found"));
    assert!(!path.exists());
}

#[test]
fn a_server_that_stops_sending_is_left_and_the_next_run_continues() {
    let server = Server::start();
    let limits = DownloadLimits { stall: Duration::from_millis(200), ..DownloadLimits::new(Content::Parquet) };
    server.put("/file", bytes(200_000));
    let url = format!("{}/file", server.address);
    for (at, kept) in [(0, 0), (70_000, 70_000)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.parquet");
        server.stall("/file", Some(at));
        let message = download(&url, &path, &limits, &mut |_| {}).unwrap_err().to_string();
        assert!(message.contains("timeout") && message.contains(&format!("{kept} bytes are kept")), "{message}");
        assert!(!path.exists());
        server.stall("/file", None);
        download(&url, &path, &limits, &mut |_| {}).unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes(200_000));
        let asked = server.log().last().unwrap().1;
        assert_eq!(asked, Some(kept).filter(|&kept| kept > 0));
    }
}

#[test]
fn a_body_beyond_the_limit_is_refused_and_not_kept() {
    let server = Server::start();
    let limits = DownloadLimits { bytes: 100_000, ..DownloadLimits::new(Content::Parquet) };
    server.never_end("/endless");
    server.put("/large", bytes(100_001));
    server.put("/largest", bytes(100_000));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.parquet");
    for (name, size) in [("endless", "more than 100000 bytes"), ("large", "100001 bytes")] {
        let url = format!("{}/{name}", server.address);
        let message = download(&url, &path, &limits, &mut |_| {}).unwrap_err().to_string();
        assert!(message.starts_with(&url) && message.contains(size), "{message}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    download(&format!("{}/largest", server.address), &path, &limits, &mut |_| {}).unwrap();
}

#[test]
fn a_page_instead_of_the_file_is_not_kept() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let page = "<!DOCTYPE html>\n<html><body>Please log in.</body></html>";
    for (content, right) in
        [(Content::Parquet, bytes(50)), (Content::Json, b"{\"a\": [1]}".into()), (Content::Positions, b"3,4\n5".into())]
    {
        let (path, url) = (folder.path().join("file"), format!("{}/file", server.address));
        let limits = DownloadLimits::new(content);
        server.put("/file", page);
        let message = download(&url, &path, &limits, &mut |_| {}).unwrap_err().to_string();
        assert!(message.starts_with(&url) && message.contains("a web page"), "{message}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        server.put("/file", right.clone());
        download(&url, &path, &limits, &mut |_| {}).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), right);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn files_of_zinc_that_are_no_parquet_are_fetched_again() {
    let server = Server::start();
    let listing = serde_json::json!({"default": {"train": [format!("{}/train.parquet", server.address)]}});
    server.put("/listing", listing.to_string());
    server.put("/train.index", "0");
    let source = ZincSource { listing: format!("{}/listing", server.address), indices: server.address.clone() };
    let cache = tempfile::tempdir().unwrap();
    for body in [b"<html>busy</html>".to_vec(), bytes(64)] {
        for _ in 0..2 {
            server.put("/train.parquet", body.clone());
            let asked = server.log().len();
            fetch_zinc(&source, cache.path(), &mut |_| {}).unwrap_err();
            let paths: Vec<String> = server.log()[asked..].iter().map(|(path, ..)| path.clone()).collect();
            assert!(paths.contains(&"/train.parquet".into()), "{paths:?}");
            assert!(!cache.path().join("downloads/zinc/train-0.parquet").exists());
        }
    }
}

/// A mirror of the full set: ZINC-12k's splits in another order, with matching index lists.
fn mirror(server: &Server, zinc: &Path, damage: bool) -> ZincSource {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = {
        let path = folder.path().join("all.jsonl");
        write(&read(zinc).unwrap(), &path).unwrap();
        std::fs::read_to_string(path).unwrap().lines().map(Into::into).collect()
    };
    let mut listing = serde_json::json!({ "default": {} });
    for (split, name, range) in
        [("train", "train", 0..10_000), ("val", "validation", 10_000..11_000), ("test", "test", 11_000..12_000)]
    {
        let mut urls = Vec::new();
        let reversed: Vec<usize> = range.clone().rev().collect();
        for (part, rows) in reversed.chunks(6_000).enumerate() {
            let path = folder.path().join("part.jsonl");
            // The rows have no schema, split or SMILES, like the files of the hub.
            let text: Vec<String> = rows
                .iter()
                .map(|&row| {
                    let mut value: serde_json::Value = serde_json::from_str(&lines[row]).unwrap();
                    let keep = ["num_nodes", "node_feat", "edge_index", "edge_attr", "y"];
                    value.as_object_mut().unwrap().retain(|key, _| keep.contains(&key.as_str()));
                    if damage && row == 11_500 {
                        value["y"] = serde_json::json!([0.25]);
                    }
                    value.to_string()
                })
                .collect();
            std::fs::write(&path, text.join("\n")).unwrap();
            let parquet = folder.path().join("part.parquet");
            write(&read(&path).unwrap(), &parquet).unwrap();
            server.put(&format!("/{name}/{part}.parquet"), std::fs::read(parquet).unwrap());
            urls.push(format!("{}/{name}/{part}.parquet", server.address));
        }
        listing["default"][name] = serde_json::json!(urls);
        let index: Vec<String> = (0..range.len()).rev().map(|i| i.to_string()).collect();
        server.put(&format!("/{split}.index"), index.join(",") + "\n");
    }
    server.put("/listing", listing.to_string());
    ZincSource { listing: format!("{}/listing", server.address), indices: server.address.clone() }
}

#[test]
fn zinc_is_assembled_from_the_full_set_and_verified() {
    let Some(zinc) = shared("data/zinc12k.parquet") else { return };
    let server = Server::start();
    let source = mirror(&server, &zinc, false);
    server.cut("/train/0.parquet", 10_000);
    let cache = tempfile::tempdir().unwrap();
    let path = fetch_zinc(&source, cache.path(), &mut |_| {}).unwrap();
    let (ours, original) = (read(&path).unwrap(), read(&zinc).unwrap());
    assert!(ours.graphs() == original.graphs());
    assert_eq!(ours.split(), original.split());
    assert_eq!(ours.schema(), original.schema());
    assert!(!cache.path().join("downloads/zinc").exists());
    let requests = server.log().len();
    assert_eq!(fetch_zinc(&source, cache.path(), &mut |_| {}).unwrap(), path);
    assert_eq!(server.log().len(), requests, "what is there is not fetched again");
}

#[test]
fn a_changed_source_is_not_taken_for_zinc() {
    let Some(zinc) = shared("data/zinc12k.parquet") else { return };
    let server = Server::start();
    let source = mirror(&server, &zinc, true);
    let cache = tempfile::tempdir().unwrap();
    let message = fetch_zinc(&source, cache.path(), &mut |_| {}).unwrap_err().to_string();
    assert!(message.contains("its 12000 graphs are not ZINC-12k"), "{message}");
    assert!(!cache.path().join("zinc12k.parquet").exists());
}

#[test]
fn a_local_copy_is_taken_if_it_is_zinc() {
    let cache = tempfile::tempdir().unwrap();
    let other: PathBuf = cache.path().join("other.parquet");
    write(&SbmSet::Cluster.generate(1, SbmSizes { train: 2, val: 1, test: 1 }).unwrap(), &other).unwrap();
    assert!(zinc_from_file(&other, cache.path()).unwrap_err().to_string().contains("are not ZINC-12k"));
    let Some(zinc) = shared("data/zinc12k.parquet") else { return };
    let path = zinc_from_file(&zinc, cache.path()).unwrap();
    assert!(read(&path).unwrap() == read(&zinc).unwrap());
}
