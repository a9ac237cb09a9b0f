//! What has to be computed, as a list in which inputs come first.

use crate::error::{Result, Site};
use crate::node::{Array, Content, Recipe};
use crate::op::Op;
use kiln_runtime::DynTensor;
use std::collections::HashMap;
use std::sync::Arc;

/// An array of the graph.
pub(crate) struct Vertex {
    pub(crate) array: Array,
    /// `None` of an array whose elements are there.
    pub(crate) recipe: Option<Recipe>,
    pub(crate) tensor: Option<Arc<DynTensor>>,
    /// Positions of the inputs.
    pub(crate) inputs: Vec<usize>,
    /// Positions of the arrays that read it.
    pub(crate) users: Vec<usize>,
    /// Whether it is asked for.
    pub(crate) is_target: bool,
}

impl Vertex {
    /// The operation, of one that is to be computed.
    pub(crate) fn op(&self) -> Option<&Op> {
        self.recipe.as_ref().map(|recipe| &recipe.op)
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// The line that recorded it.
    pub(crate) fn site(&self) -> Site {
        self.array.site()
    }
}

/// The arrays that targets are made of, inputs before what is made of them.
pub(crate) struct Graph(pub(crate) Vec<Vertex>);

impl Graph {
    /// The graph of the arrays that are not computed yet.
    ///
    /// # Errors
    /// The error of a target that has one.
    pub(crate) fn of(targets: &[&Array]) -> Result<Graph> {
        let mut graph = Graph(Vec::new());
        let mut positions = HashMap::new();
        for &target in targets {
            if let Content::Recipe(_) = target.content()? {
                let at = graph.visit(target, &mut positions)?;
                graph.0[at].is_target = true;
            }
        }
        for at in 0..graph.0.len() {
            for input in graph.0[at].inputs.clone() {
                graph.0[input].users.push(at);
            }
        }
        Ok(graph)
    }

    /// Adds an array and what it is made of, without recursion: chains are long.
    fn visit(&mut self, root: &Array, positions: &mut HashMap<usize, usize>) -> Result<usize> {
        let mut pending = vec![(root.clone(), false)];
        while let Some((array, inputs_are_there)) = pending.pop() {
            if positions.contains_key(&array.identity()) {
                continue;
            }
            let (tensor, recipe) = match array.content()? {
                Content::Tensor(tensor) => (Some(tensor), None),
                Content::Recipe(recipe) => (None, Some(recipe)),
            };
            let inputs: &[Array] = recipe.as_ref().map_or(&[], |recipe| read_inputs(recipe));
            if !inputs_are_there {
                pending.push((array.clone(), true));
                pending.extend(inputs.iter().rev().map(|input| (input.clone(), false)));
                continue;
            }
            let inputs =
                inputs.iter().filter_map(|input| positions.get(&input.identity()).copied()).collect();
            positions.insert(array.identity(), self.0.len());
            self.0.push(Vertex { array, recipe, tensor, inputs, users: Vec::new(), is_target: false });
        }
        Ok(positions[&root.identity()])
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The inputs whose elements are read: of one with a user's rule the value alone.
fn read_inputs(recipe: &Recipe) -> &[Array] {
    match recipe.op {
        Op::Custom => &recipe.inputs[..1],
        _ => &recipe.inputs,
    }
}

impl std::ops::Index<usize> for Graph {
    type Output = Vertex;

    fn index(&self, at: usize) -> &Vertex {
        &self.0[at]
    }
}
