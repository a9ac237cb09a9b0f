//! What has to be computed, as a list in which inputs come first.

use super::structure::Structure;
use crate::error::{Result, Site};
use crate::node::{Array, Content, Recipe};
use crate::op::Op;
use kiln_ir::Literal;
use std::collections::HashMap;

/// An array of the graph.
pub(crate) struct Vertex {
    pub(crate) array: Array,
    /// `None` of an array whose elements are there.
    pub(crate) recipe: Option<Recipe>,
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
pub(crate) struct Graph {
    pub(crate) vertices: Vec<Vertex>,
    /// The numbers that kernels take as arguments.
    pub(crate) constants: Vec<Literal>,
}

impl Graph {
    /// The graph of the arrays that are not computed yet.
    ///
    /// # Errors
    /// The error of a target that has one.
    pub(crate) fn of(targets: &[&Array]) -> Result<Graph> {
        loop {
            if let Some(graph) = Graph::new(&Structure::of(targets)?)? {
                return Ok(graph);
            }
        }
    }

    /// The graph of a structure, in the same order; `None` if another thread has computed some of
    /// the arrays meanwhile, so that the structure is another one.
    ///
    /// # Errors
    /// The error of an array that has one.
    pub(crate) fn new(of: &Structure) -> Result<Option<Graph>> {
        let mut vertices: Vec<Vertex> = Vec::with_capacity(of.arrays.len());
        let identities = of.arrays.iter().enumerate().map(|(at, array)| (array.identity(), at));
        let positions: HashMap<usize, usize> = identities.collect();
        for (at, array) in of.arrays.iter().enumerate() {
            let recipe = match (array.content()?, &of.tensors[at]) {
                (_, Some(_)) => None,
                (Content::Recipe(recipe), None) => Some(recipe),
                (Content::Tensor(_), None) => return Ok(None),
            };
            let read: &[Array] = recipe.as_ref().map_or(&[], Recipe::read_inputs);
            let inputs: Vec<usize> =
                read.iter().filter_map(|input| positions.get(&input.identity()).copied()).collect();
            for &input in &inputs {
                vertices[input].users.push(at);
            }
            let is_target = of.targets.binary_search(&at).is_ok();
            vertices.push(Vertex { array: array.clone(), recipe, inputs, users: Vec::new(), is_target });
        }
        Ok(Some(Graph { vertices, constants: of.constants.clone() }))
    }

    pub(crate) fn len(&self) -> usize {
        self.vertices.len()
    }
}

impl std::ops::Index<usize> for Graph {
    type Output = Vertex;

    fn index(&self, at: usize) -> &Vertex {
        &self.vertices[at]
    }
}
