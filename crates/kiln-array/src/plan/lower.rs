//! From a body to a program and its arguments: which dimensions are tiles, which are loops.

use super::affine::{Affine, Var, linear};
use super::body::{Body, Dim, Group, Value};
use super::graph::Graph;
use super::program::{Columns, Input, Number, Output, Part, Place, Program, Step, Sum, is_part_of_code};
use super::sizes::{self, Sizes};
use crate::op::Op;
use crate::shape::{overlaps, row_major};
use kiln_ir::{Literal, MAX_VIEW_RANK, Scalar};
use kiln_runtime::Device;

/// A view of an array's memory.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) vertex: usize,
    pub(crate) offset: usize,
    pub(crate) extents: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

/// A launch of a kernel: the program, and what it is given.
pub(crate) struct Launch {
    pub(crate) program: Program,
    pub(crate) inputs: Vec<View>,
    pub(crate) outputs: Vec<View>,
    pub(crate) numbers: Vec<Literal>,
    /// Which of the numbers is which constant of the graph.
    pub(crate) constants: Vec<(usize, usize)>,
    /// The arrays whose indices are checked.
    pub(crate) checks: Vec<usize>,
    pub(crate) grid: [usize; 3],
}

/// The launch of a group; `None` where its results do not lie as its dimensions do, so that it must
/// be divided.
pub(crate) fn lower(
    graph: &Graph,
    group: &Group,
    body: &Body,
    stored: &[usize],
    device: &Device,
) -> Option<Launch> {
    let mut lowering = Lowering::new(graph, group, body, stored);
    lowering.merge();
    lowering.launch(device)
}

/// A result of a group.
struct Stored {
    vertex: usize,
    value: usize,
    /// The index in row-major order.
    at: Affine,
    has_row: bool,
}

/// The parts of a body that name dimensions.
struct Lowering<'a> {
    graph: &'a Graph,
    body: &'a Body,
    dims: Vec<Dim>,
    /// Of each value, its index; of a read, the one in row-major order.
    indices: Vec<Option<Affine>>,
    stored: Vec<Stored>,
}

impl<'a> Lowering<'a> {
    fn new(graph: &'a Graph, group: &Group, body: &'a Body, stored: &[usize]) -> Lowering<'a> {
        let index = |value: &Value| match value {
            Value::Index(index) => Some(index.clone()),
            Value::Read { vertex, index, .. } => {
                let shape = graph[*vertex].shape();
                // One index is that of all elements in order.
                if index.len() == shape.len() {
                    Some(linear(index, &row_major(shape)))
                } else {
                    index.first().cloned()
                }
            }
            _ => None,
        };
        let result = |&at: &usize| {
            let member = &group.members[at];
            let of = &graph[member.vertex];
            let all = body.indices(&member.axes);
            let (index, has_row) = match of.op() {
                Some(Op::Reduce { axes, .. }) => {
                    let stays = |(axis, index)| (!axes.contains(&axis)).then_some(index);
                    (all.into_iter().enumerate().filter_map(stays).collect(), false)
                }
                _ => (all, member.axes.iter().flatten().any(|&axis| group.axes[axis].row)),
            };
            let at_index = linear(&index, &row_major(of.shape()));
            Stored { vertex: member.vertex, value: body.results[at], at: at_index, has_row }
        };
        Lowering {
            graph,
            body,
            dims: body.dims.clone(),
            indices: body.values.iter().map(index).collect(),
            stored: stored.iter().map(result).collect(),
        }
    }

    /// Makes one dimension of two wherever all elements lie as if they were one.
    fn merge(&mut self) {
        let mut dim = 0;
        while dim + 1 < self.dims.len() {
            let inner = self.dims[dim + 1];
            let as_one = |index: &Affine| index.factor(dim) == index.factor(dim + 1) * inner.extent as i64;
            let all = self.indices.iter().flatten().chain(self.stored.iter().map(|stored| &stored.at));
            if self.dims[dim].row != inner.row || !all.into_iter().all(as_one) {
                dim += 1;
                continue;
            }
            self.dims[dim + 1].extent *= self.dims[dim].extent;
            self.dims.remove(dim);
            let stored = self.stored.iter_mut().map(|stored| &mut stored.at);
            for index in self.indices.iter_mut().flatten().chain(stored) {
                index.terms.retain(|term| term.0 != Var::Dim(dim));
                for (var, _) in &mut index.terms {
                    if let Var::Dim(other) = var
                        && *other > dim
                    {
                        *other -= 1;
                    }
                }
            }
        }
    }

    /// Whether there is a running sum, which a tile must hold whole.
    fn has_running_sum(&self) -> bool {
        self.body.values.iter().any(|value| matches!(value, Value::CumSum { .. }))
    }

    /// Whether neighbors of a result lie along a dimension.
    fn is_stored_along(&self, dim: usize) -> bool {
        self.stored.iter().any(|stored| stored.at.factor(dim) == 1)
    }

    /// Whether neighbors of what is read lie along a dimension: of the largest arrays, since the
    /// others, as a mean for each row, stay in caches.
    fn is_adjacent(&self, dim: usize) -> bool {
        let differing = |index: &Affine| {
            let dims = self.dims.iter().enumerate().filter(|&(dim, _)| index.factor(dim) != 0);
            dims.map(|(_, of)| of.extent).product::<usize>()
        };
        let all = || self.indices.iter().flatten();
        let most = all().map(differing).max();
        all().any(|index| index.factor(dim) == 1 && Some(differing(index)) == most)
    }

    /// Whether neighbors of something that a whole tile reads lie along its rows. What only differs
    /// from row to row, as a result for each, is read once a row.
    fn is_crossed(&self, rows: usize, columns: &[usize]) -> bool {
        let differs = |index: &&Affine| columns.iter().any(|&dim| index.factor(dim) != 0);
        self.indices.iter().flatten().filter(differs).any(|index| index.factor(rows) == 1)
    }

    fn launch(&self, device: &Device) -> Option<Launch> {
        let kept: Vec<usize> = (0..self.dims.len()).filter(|&dim| !self.dims[dim].row).collect();
        let row: Vec<usize> = (0..self.dims.len()).filter(|&dim| self.dims[dim].row).collect();
        let extents = |dims: &[usize]| dims.iter().map(|&dim| self.dims[dim].extent).product::<usize>();
        // Whole rows whose neighbors lie apart would be read element by element.
        let in_order = |&dim: &usize| self.is_adjacent(dim) || self.is_stored_along(dim);
        let is_apart = kept.iter().any(|&dim| self.is_adjacent(dim)) && !row.iter().any(in_order);
        let is_whole = sizes::fits_tile(extents(&row)) && (!is_apart || extents(&row) <= sizes::CROSSED);
        let columns = match row.is_empty() {
            true => Columns::Grid,
            false if is_whole || self.has_running_sum() => Columns::Whole,
            false => Columns::Loop,
        };
        let (kept, rounds, wide) = match columns {
            Columns::Grid => {
                let inner = kept.len().saturating_sub(1);
                (kept[..inner].to_vec(), Vec::new(), kept[inner..].to_vec())
            }
            Columns::Whole => (kept, Vec::new(), row),
            Columns::Loop => (kept, row[..row.len() - 1].to_vec(), row[row.len() - 1..].to_vec()),
        };
        let tall = self.choose_tall(&kept, &wide);
        let outer: Vec<usize> = kept.iter().copied().filter(|&dim| Some(dim) != tall).collect();
        let order = Order { outer, tall, rounds, wide };
        if !self.stored.iter().all(|stored| self.lies_in_order(&stored.at, &order)) {
            return None;
        }
        Some(Builder::new(self, order, columns, device).launch())
    }

    /// The dimension of a tile's rows: the last one, or, where results have no more than three
    /// dimensions, one along which neighbors lie in memory.
    fn choose_tall(&self, kept: &[usize], wide: &[usize]) -> Option<usize> {
        let last = kept.last().copied();
        if kept.len() > 2
            || wide.iter().all(|&dim| self.is_adjacent(dim)) && last.is_some_and(|dim| !self.is_adjacent(dim))
        {
            return last;
        }
        kept.iter().copied().find(|&dim| self.is_adjacent(dim)).or(last)
    }

    /// The bytes of an element of the largest array that is read.
    fn element_bytes(&self) -> usize {
        let read = self.body.values.iter().filter_map(|value| {
            let Value::Read { vertex, .. } = value else { return None };
            let array = &self.graph[*vertex].array;
            Some((array.len(), array.dtype().bytes()))
        });
        read.max().map_or(1, |(_, bytes)| bytes as usize)
    }

    /// Whether the outer dimensions of a result, and those of rounds, are each like one dimension.
    fn lies_in_order(&self, at: &Affine, order: &Order) -> bool {
        let as_one = |dims: &[usize]| {
            dims.windows(2)
                .all(|pair| at.factor(pair[0]) == at.factor(pair[1]) * self.dims[pair[1]].extent as i64)
        };
        as_one(&order.outer) && as_one(&order.rounds) && as_one(&order.wide)
    }
}

/// Dimensions by place.
struct Order {
    outer: Vec<usize>,
    tall: Option<usize>,
    rounds: Vec<usize>,
    wide: Vec<usize>,
}

impl Order {
    fn all(&self) -> impl Iterator<Item = (usize, Place)> + '_ {
        let of = |dims: &'_ [usize], place| dims.iter().map(move |&dim| (dim, place)).collect::<Vec<_>>();
        let tall: Vec<usize> = self.tall.into_iter().collect();
        [
            of(&self.outer, Place::Outer),
            of(&tall, Place::Tall),
            of(&self.rounds, Place::Round),
            of(&self.wide, Place::Wide),
        ]
        .into_iter()
        .flatten()
    }
}

/// Builds the launch.
struct Builder<'a, 'b> {
    from: &'b Lowering<'a>,
    order: Order,
    /// The position in the program of each dimension.
    position: Vec<usize>,
    launch: Launch,
}

impl<'a, 'b> Builder<'a, 'b> {
    fn new(from: &'b Lowering<'a>, order: Order, columns: Columns, device: &Device) -> Builder<'a, 'b> {
        let mut position = vec![0; from.dims.len()];
        let mut places = Vec::new();
        let mut numbers = Vec::new();
        for (dim, place) in order.all() {
            position[dim] = places.len();
            places.push(place);
            numbers.push(Literal::index(from.dims[dim].extent as i64));
        }
        let extent = |dims: &[usize]| dims.iter().map(|&dim| from.dims[dim].extent).product::<usize>();
        let tall = order.tall.map_or(1, |dim| from.dims[dim].extent);
        let crossed = order.tall.is_some_and(|dim| from.is_crossed(dim, &order.wide));
        let of = Sizes {
            columns,
            outer: extent(&order.outer),
            rows: tall,
            columns_extent: extent(&order.wide),
            crossed,
            element_bytes: from.element_bytes(),
        };
        let (tile, warps) = sizes::tile(of, device);
        let counts = [
            (
                Part::Wide,
                if columns == Columns::Grid { extent(&order.wide).div_ceil(tile[1] as usize) } else { 1 },
            ),
            (Part::Tall, tall.div_ceil(tile[0] as usize)),
            (Part::Outer, extent(&order.outer)),
        ];
        let mut sorted = counts;
        // Devices have room for the most programs on the first axis.
        sorted.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let program = Program {
            dims: places,
            tile,
            columns,
            exact: extent(&order.wide).is_multiple_of(tile[1] as usize),
            warps,
            grid: sorted.map(|(part, _)| part),
            code: Vec::new(),
            elems: from.body.elems.clone(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            numbers: vec![Scalar::I64; numbers.len()],
        };
        let grid = sorted.map(|(_, count)| count);
        let (inputs, outputs, constants, checks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let launch = Launch { program, inputs, outputs, numbers, constants, checks, grid };
        Builder { from, order, position, launch }
    }

    fn launch(mut self) -> Launch {
        for (at, value) in self.from.body.values.iter().enumerate() {
            let step = self.step(at, value);
            self.launch.program.code.push(step);
        }
        for stored in &self.from.stored {
            let elem = self.from.graph[stored.vertex].array.dtype();
            let has_row = stored.has_row || self.launch.program.columns == Columns::Grid;
            self.launch.program.outputs.push(Output { elem, value: stored.value, has_row });
            let view = self.output(stored);
            self.launch.outputs.push(view);
        }
        self.launch
    }

    /// The view of a result: an axis each for the outer dimensions, the rows of tiles, and of a
    /// result with the row's dimensions for rounds and columns.
    fn output(&self, stored: &Stored) -> View {
        let Order { outer, tall, rounds, wide } = &self.order;
        let mut groups: Vec<&[usize]> = vec![outer, tall.as_slice()];
        if stored.has_row || self.launch.program.columns == Columns::Grid {
            groups.extend([&rounds[..], &wide[..]]);
        }
        let extent = |dims: &&[usize]| dims.iter().map(|&dim| self.from.dims[dim].extent).product();
        let extents: Vec<usize> = groups.iter().map(extent).collect();
        // Of an axis of extent 1 no step is ever taken.
        let dense = row_major(&extents);
        let stride = |(at, dims): (usize, &&[usize])| match dims.last() {
            Some(&dim) if extents[at] > 1 => stored.at.factor(dim) as usize,
            _ => dense[at],
        };
        let strides = groups.iter().enumerate().map(stride).collect();
        View { vertex: stored.vertex, offset: 0, extents, strides }
    }

    fn step(&mut self, at: usize, value: &Value) -> Step {
        let index = self.from.indices[at].as_ref();
        match value {
            Value::Literal(literal) if is_part_of_code(*literal) => Step::Literal(*literal),
            Value::Literal(literal) => {
                let number = self.argument(*literal);
                let constants = self.from.graph.constants.iter();
                let slots = constants.enumerate().filter(|(_, constant)| *constant == literal);
                self.launch.constants.extend(slots.map(|(slot, _)| (number, slot)));
                Step::Argument(number)
            }
            Value::Index(index_before) => Step::Index(self.sum(index.unwrap_or(index_before))),
            Value::Read { vertex, mask, .. } => {
                let nothing = Affine::default();
                self.read(*vertex, index.unwrap_or(&nothing), *mask)
            }
            Value::Unary(op, x) => Step::Unary(*op, *x),
            Value::Binary(op, both) => Step::Binary(*op, *both),
            Value::Compare(op, both) => Step::Compare(*op, *both),
            Value::Select(three) => Step::Select(*three),
            Value::Cast(to, x) => Step::Cast(*to, *x),
            Value::Reduce(op, x) => Step::Reduce(*op, *x),
            Value::CumSum { reverse, of } => Step::CumSum { reverse: *reverse, of: *of },
            Value::Checked { index, extent, mask } => self.checked(at, (*index, *extent, *mask)),
        }
    }

    /// A check, which is given the number of the array whose index it is: a fault names it.
    fn checked(&mut self, at: usize, (index, extent, mask): (usize, usize, Option<usize>)) -> Step {
        let extent = self.number(extent as i64);
        let of = self.from.body.checks.iter().find(|(value, _)| *value == at).map_or(0, |&(_, of)| of);
        self.launch.checks.push(of);
        Step::Checked { index, extent, mask, of: self.argument(Literal::index(of as i64)) }
    }

    /// A read of a box where memory is reached in steps forward, else element by element.
    fn read(&mut self, vertex: usize, at: &Affine, mask: Option<usize>) -> Step {
        let is_dim = |term: &(Var, i64)| matches!(term.0, Var::Dim(_)) && term.1 > 0;
        let mut dims: Vec<usize> = at.terms.iter().filter_map(|term| dim_of(term.0)).collect();
        dims.sort_by_key(|&dim| self.position[dim]);
        let parts_of_columns =
            self.order.wide.len() > 1 && dims.iter().any(|dim| self.order.wide.contains(dim));
        let strided = mask.is_none() && at.terms.iter().all(is_dim) && !parts_of_columns;
        let elem = self.from.graph[vertex].array.dtype();
        let input = self.launch.inputs.len();
        let mut extents: Vec<usize> = dims.iter().map(|&dim| self.from.dims[dim].extent).collect();
        let mut strides: Vec<usize> = dims.iter().map(|&dim| at.factor(dim) as usize).collect();
        if strided && dims.len() <= MAX_VIEW_RANK && !overlaps(&extents, &strides) {
            if dims.is_empty() {
                (extents, strides) = (vec![1], vec![1]);
            }
            self.launch.inputs.push(View { vertex, offset: at.constant as usize, extents, strides });
            let dims = dims.iter().map(|&dim| self.position[dim]).collect();
            self.launch.program.inputs.push(Input { elem, dims: Some(dims) });
            return Step::Box { input };
        }
        let extents = vec![crate::shape::count(self.from.graph[vertex].shape())];
        self.launch.inputs.push(View { vertex, offset: 0, extents, strides: vec![1] });
        self.launch.program.inputs.push(Input { elem, dims: None });
        Step::Gather { input, at: self.sum(at), mask }
    }

    fn sum(&mut self, index: &Affine) -> Sum {
        let constant = self.number(index.constant);
        let term = |&(var, factor): &(Var, i64)| {
            let var = dim_of(var).map_or(var, |dim| Var::Dim(self.position[dim]));
            (var, factor)
        };
        let terms: Vec<(Var, i64)> = index.terms.iter().map(term).collect();
        Sum { constant, terms: terms.into_iter().map(|(var, factor)| (var, self.number(factor))).collect() }
    }

    fn number(&mut self, number: i64) -> Number {
        match number {
            -1..=1 => Number::Literal(number),
            _ => Number::Argument(self.argument(Literal::index(number))),
        }
    }

    fn argument(&mut self, literal: Literal) -> usize {
        self.launch.numbers.push(literal);
        self.launch.program.numbers.push(literal.elem());
        self.launch.numbers.len() - 1
    }
}

fn dim_of(var: Var) -> Option<usize> {
    match var {
        Var::Dim(dim) => Some(dim),
        Var::Value(_) => None,
    }
}
