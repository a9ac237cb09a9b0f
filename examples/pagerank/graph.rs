//! Graphs from files, and their PageRank on the host.

use crate::DAMPING;
use std::collections::HashMap;

/// A directed graph: names of nodes, and edges as pairs of their numbers.
#[derive(Default)]
pub struct Graph {
    pub names: Vec<String>,
    pub edges: Vec<(u32, u32)>,
    numbers: HashMap<String, u32>,
}

impl Graph {
    /// Packages and what they depend on, of the text of a `Cargo.lock`. Versions of one package are
    /// one node.
    pub fn of_lock_file(text: &str) -> Graph {
        let mut graph = Graph::default();
        let quoted = |line: &str| line.split('"').nth(1).map(str::to_owned);
        let (mut package, mut depends) = (None, false);
        for line in text.lines().map(str::trim) {
            if line.starts_with("name = ") {
                package = quoted(line).map(|name| graph.node(&name));
            } else if line.starts_with("dependencies = [") {
                depends = true;
            } else if line == "]" {
                depends = false;
            } else if let (true, Some(from), Some(text)) = (depends, package, quoted(line)) {
                // A name, with a version where there are several.
                let to = graph.node(text.split(' ').next().unwrap_or(&text));
                graph.edges.push((from, to));
            }
        }
        graph
    }

    /// Two names a line.
    pub fn of_edges(text: &str) -> Result<Graph, String> {
        let mut graph = Graph::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("");
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                [] => {}
                [from, to] => {
                    let edge = (graph.node(from), graph.node(to));
                    graph.edges.push(edge);
                }
                _ => return Err(format!("line {}: an edge is two names, and this is `{line}`", number + 1)),
            }
        }
        Ok(graph)
    }

    fn node(&mut self, name: &str) -> u32 {
        *self.numbers.entry(name.to_owned()).or_insert_with(|| {
            self.names.push(name.to_owned());
            self.names.len() as u32 - 1
        })
    }
}

/// PageRank by the power method, in double precision, far beyond what the device settles for.
pub fn ranks(nodes: usize, edges: &[(u32, u32)]) -> Vec<f64> {
    let mut degree = vec![0u32; nodes];
    edges.iter().for_each(|&(from, _)| degree[from as usize] += 1);
    let mut rank = vec![1.0 / nodes as f64; nodes];
    for _ in 0..500 {
        let idle: f64 = (0..nodes).filter(|&node| degree[node] == 0).map(|node| rank[node]).sum();
        let mut fresh = vec![(1.0 - DAMPING + DAMPING * idle) / nodes as f64; nodes];
        for &(from, to) in edges {
            fresh[to as usize] += DAMPING * rank[from as usize] / f64::from(degree[from as usize]);
        }
        rank = fresh;
    }
    rank
}
