//! What a kernel would do to each element of a product, done to its sums where they are made.
//!
//! A group that reads a product, and nothing of it but the element in its own place, is the
//! *epilogue* of that product: the product is not stored. What else the group reads must lie along
//! the product's rows, columns or both, as biases and residuals do.

use super::affine::{Affine, Var, linear};
use super::body::{Body, Group, Value};
use super::graph::Graph;
use super::lower::View;
use super::partition::{Part, Partition};
use super::program::is_part_of_code;
use crate::dtype::is_narrow;
use crate::op::Op;
use crate::shape::{count, overlaps, row_major};
use kiln_ir::{BinaryOp, CompareOp, Literal, Scalar, UnaryOp};
use kiln_runtime::Execution;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// What an element of an operand is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Along {
    /// All elements of the result.
    All,
    /// Those of its row.
    Rows,
    /// Those of its column.
    Columns,
    /// Those in its place of each product.
    Matrix,
    /// The one in its place.
    Stack,
}

/// One step. Operands are positions of earlier steps.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stage {
    /// The sums, in the product's element type.
    Sums,
    /// An element of an operand.
    Operand(usize),
    /// A number among the arguments.
    Number(usize),
    Literal(Literal),
    /// The number `constant` plus multiples of the numbers of product, row and column, all by
    /// positions among the arguments.
    Index {
        constant: usize,
        factors: [Option<usize>; 3],
    },
    Unary(UnaryOp, usize),
    Binary(BinaryOp, [usize; 2]),
    Compare(CompareOp, [usize; 2]),
    Select([usize; 3]),
    Cast(Scalar, usize),
}

impl Stage {
    /// Whether something is computed.
    pub(crate) fn is_work(&self) -> bool {
        match self {
            Stage::Sums | Stage::Operand(_) | Stage::Number(_) | Stage::Literal(_) | Stage::Index { .. } => {
                false
            }
            Stage::Unary(..)
            | Stage::Binary(..)
            | Stage::Compare(..)
            | Stage::Select(_)
            | Stage::Cast(..) => true,
        }
    }
}

/// The most operations of an epilogue on a GPU, whose registers are full of sums: the 16 of the
/// gradient of GELU made a product five times as slow on an H200, the 8 of GELU not slower than a
/// kernel beside it.
const MOST_WORK: usize = 12;

/// What is done to sums.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) stages: Vec<Stage>,
    /// The element type of each stage.
    pub(crate) elems: Vec<Scalar>,
    /// The stage whose value is stored.
    pub(crate) result: usize,
    pub(crate) operands: Vec<Along>,
    /// 128 bits of hash of all of these.
    pub(crate) identity: [u64; 2],
}

/// A product with its epilogue.
pub(crate) struct Fused {
    /// The product, which is not stored.
    pub(crate) product: usize,
    /// What is stored in its place.
    pub(crate) result: usize,
    pub(crate) chain: Arc<Chain>,
    /// Of rank 1, or stacks of matrices of rank 3.
    pub(crate) operands: Vec<View>,
    pub(crate) numbers: Vec<Literal>,
    /// Which of the numbers is which constant of the graph.
    pub(crate) constants: Vec<(usize, usize)>,
}

/// The element types that are summed in f32.
const NARROW: [Scalar; 3] = [Scalar::F32, Scalar::F16, Scalar::BF16];

/// The products with epilogues, each beside the part that is its epilogue.
pub(crate) fn epilogues(graph: &Graph, partition: &Partition, results: &[Vec<usize>]) -> Vec<Option<Fused>> {
    let mut readers = vec![0usize; graph.len()];
    for part in &partition.parts {
        let mut reads = partition.reads(graph, part);
        reads.sort_unstable();
        reads.dedup();
        reads.into_iter().for_each(|read| readers[read] += 1);
    }
    partition.aliases.iter().for_each(|&(_, source)| readers[source] += 1);
    let of = |(part, results): (&Part, &Vec<usize>)| {
        let (Part::Kernel { group, body }, [result]) = (part, &results[..]) else { return None };
        let is_product = |vertex: &usize| {
            let of = &graph[*vertex];
            matches!(of.op(), Some(Op::Product)) && !of.is_target && readers[*vertex] == 1
        };
        // Of several products the last one, which can wait for the others.
        let read = |value: &Value| match value {
            Value::Read { vertex, .. } => Some(*vertex),
            _ => None,
        };
        let product = body.values.iter().filter_map(read).filter(is_product).max()?;
        Writer::new(graph, (group, body), *result, product)?.write()
    };
    partition.parts.iter().zip(results).map(of).collect()
}

/// Writes the epilogue of a product.
struct Writer<'a> {
    graph: &'a Graph,
    body: &'a Body,
    /// The dimensions of the body that count products, rows and columns.
    roles: [Vec<usize>; 3],
    /// Their extents.
    shape: [usize; 3],
    /// The position of every element in order, of the dimensions.
    place: Affine,
    result_value: usize,
    operands: Vec<Along>,
    fused: Fused,
}

impl<'a> Writer<'a> {
    /// `None` if the group is no epilogue.
    fn new(
        graph: &'a Graph,
        (group, body): (&Group, &'a Body),
        at: usize,
        product: usize,
    ) -> Option<Writer<'a>> {
        let member = group.members.get(at)?;
        let (of, from) = (&graph[member.vertex], &graph[product]);
        let (to, elem) = (of.array.dtype(), from.array.dtype());
        let &[products, rows, columns] = from.shape() else { return None };
        let is_matrix = rows > 1 && columns > 1;
        let is_stored_so = NARROW.contains(&elem) && (to == elem || to == Scalar::F32);
        let is_narrow = body.elems.iter().any(|&elem| is_narrow(elem));
        if group.has_rows()
            || !is_matrix
            || !is_stored_so
            || is_narrow
            || count(of.shape()) != count(from.shape())
        {
            return None;
        }
        let extents: Vec<usize> = body.dims.iter().map(|dim| dim.extent).collect();
        let terms = row_major(&extents);
        let place = terms.iter().enumerate().fold(Affine::default(), |sum, (dim, &stride)| {
            sum.plus(&Affine::of(Var::Dim(dim), stride as i64), 1)
        });
        let shape = [products, rows, columns];
        if linear(&body.indices(&member.axes), &row_major(of.shape())) != place {
            return None;
        }
        let fused = Fused {
            product,
            result: member.vertex,
            chain: Arc::new(Chain {
                stages: Vec::new(),
                elems: body.elems.clone(),
                result: 0,
                operands: Vec::new(),
                identity: [0; 2],
            }),
            operands: Vec::new(),
            numbers: Vec::new(),
            constants: Vec::new(),
        };
        let (roles, result_value) = (roles(&extents, shape)?, *body.results.get(at)?);
        Some(Writer { graph, body, roles, shape, place, result_value, operands: Vec::new(), fused })
    }

    fn write(mut self) -> Option<Fused> {
        let stages = self.body.values.iter().map(|value| self.stage(value)).collect::<Option<Vec<_>>>()?;
        let device = self.graph[self.fused.product].array.device()?;
        let work = stages.iter().filter(|stage| stage.is_work()).count();
        if device.capabilities().execution == Execution::Simt && work > MOST_WORK {
            return None;
        }
        let (elems, result, operands) = (self.body.elems.clone(), self.result_value, self.operands);
        let identity = [1u64, 2].map(|seed| {
            let mut hasher = DefaultHasher::new();
            (seed, &stages, &elems, result, &operands).hash(&mut hasher);
            hasher.finish()
        });
        Some(Fused { chain: Arc::new(Chain { stages, elems, result, operands, identity }), ..self.fused })
    }

    fn stage(&mut self, value: &Value) -> Option<Stage> {
        Some(match value {
            Value::Literal(literal) if is_part_of_code(*literal) => Stage::Literal(*literal),
            Value::Literal(literal) => {
                let number = self.number(*literal);
                let constants = self.graph.constants.iter().enumerate();
                let slots = constants.filter(|(_, constant)| *constant == literal);
                self.fused.constants.extend(slots.map(|(slot, _)| (number, slot)));
                Stage::Number(number)
            }
            Value::Index(index) => {
                let strides = self.strides(index)?;
                let constant = self.number(Literal::index(index.constant));
                let factors = strides.map(|by| (by != 0).then(|| self.number(Literal::index(by))));
                Stage::Index { constant, factors }
            }
            Value::Read { vertex, index, mask: None } => {
                let shape = self.graph[*vertex].shape();
                let flat = match index.len() == shape.len() {
                    true => linear(index, &row_major(shape)),
                    false => index.first()?.clone(),
                };
                if *vertex == self.fused.product {
                    return (flat == self.place).then_some(Stage::Sums);
                }
                self.operand(*vertex, &flat)?
            }
            Value::Unary(op, x) => Stage::Unary(*op, *x),
            Value::Binary(op, both) => Stage::Binary(*op, *both),
            Value::Compare(op, both) => Stage::Compare(*op, *both),
            Value::Select(three) => Stage::Select(*three),
            Value::Cast(to, x) => Stage::Cast(*to, *x),
            Value::Read { .. } | Value::Reduce(..) | Value::CumSum { .. } | Value::Checked { .. } => {
                return None;
            }
        })
    }

    fn number(&mut self, literal: Literal) -> usize {
        self.fused.numbers.push(literal);
        self.fused.numbers.len() - 1
    }

    /// The distances of neighboring products, rows and columns; `None` where these are no steps.
    fn strides(&self, index: &Affine) -> Option<[i64; 3]> {
        if index.terms.iter().any(|term| matches!(term.0, Var::Value(_))) {
            return None;
        }
        let stride = |dims: &Vec<usize>| {
            let extent = |dim: usize| self.body.dims[dim].extent as i64;
            let as_one =
                dims.windows(2).all(|pair| index.factor(pair[0]) == index.factor(pair[1]) * extent(pair[1]));
            as_one.then(|| dims.last().map_or(0, |&dim| index.factor(dim)))
        };
        let [products, rows, columns] = &self.roles;
        Some([stride(products)?, stride(rows)?, stride(columns)?])
    }

    fn operand(&mut self, vertex: usize, flat: &Affine) -> Option<Stage> {
        let strides = self.strides(flat)?;
        let dtype = self.graph[vertex].array.dtype();
        if strides.iter().any(|&by| by < 0) || dtype == Scalar::Bool || is_narrow(dtype) {
            return None;
        }
        let [products, rows, columns] = self.shape;
        let [of_product, of_row, of_column] = strides.map(|by| by as usize);
        let (along, extents, strides) = match strides.map(|by| by > 0) {
            [false, false, false] => (Along::All, vec![1], vec![1]),
            [false, true, false] => (Along::Rows, vec![rows], vec![of_row]),
            [false, false, true] => (Along::Columns, vec![columns], vec![of_column]),
            [false, true, true] => {
                (Along::Matrix, vec![1, rows, columns], vec![rows * columns, of_row, of_column])
            }
            [true, true, true] => {
                (Along::Stack, vec![products, rows, columns], vec![of_product, of_row, of_column])
            }
            [true, _, _] => return None,
        };
        if overlaps(&extents, &strides) {
            return None;
        }
        self.operands.push(along);
        self.fused.operands.push(View { vertex, offset: flat.constant as usize, extents, strides });
        Some(Stage::Operand(self.operands.len() - 1))
    }
}

/// The dimensions of products, rows and columns, if these begin where dimensions do.
fn roles(extents: &[usize], shape: [usize; 3]) -> Option<[Vec<usize>; 3]> {
    let mut roles = [const { Vec::new() }; 3];
    let mut dim = extents.len();
    for role in (0..3).rev() {
        let mut reached = 1;
        while reached < shape[role] {
            dim = dim.checked_sub(1)?;
            reached *= extents[dim];
            roles[role].insert(0, dim);
        }
        if reached != shape[role] {
            return None;
        }
    }
    (dim == 0).then_some(roles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_have_roles_where_they_begin_with_rows_and_columns() {
        assert_eq!(roles(&[2, 3, 4], [1, 6, 4]), Some([vec![], vec![0, 1], vec![2]]));
        assert_eq!(roles(&[5, 2, 3, 2, 2], [5, 6, 4]), Some([vec![0], vec![1, 2], vec![3, 4]]));
        assert_eq!(roles(&[4, 6], [1, 6, 4]), None);
        assert_eq!(roles(&[24], [1, 6, 4]), None);
    }
}
