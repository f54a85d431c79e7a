#![no_main]

graph_transformer_fuzz::target!(graph_transformer_fuzz::readers::torch::run);
