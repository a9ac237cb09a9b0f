//! Which arrays share a kernel.
//!
//! First it is found which arrays may have to be in memory: those that are asked for, the results
//! of reductions and of the library, and what several read that costs more than a few operations.
//! Each then gets a group, in the order of the graph: one of before if it counts over the same axes
//! and reads what that reads or makes, else one of its own. What only its own group reads is not
//! stored after all.

use super::affine::Var;
use super::body::{Body, Failure, Group, GroupAxis, Member, Value};
use super::graph::Graph;
use super::sizes::fits_tile;
use crate::op::Op;

/// Operations from which on a result that several read is stored.
const STORED_FROM: usize = 12;

/// Readers of a result but the first, times what each reads in its place but the first, from which
/// on it is stored: writing it and reading it is less then.
const REREAD_FROM: usize = 2;

/// The most operations, one after the other, that no result between them is stored.
const DEEPEST: usize = 64;

/// The most operations of an array that are repeated rather than stored, however few read it.
const MOST_OPERATIONS: usize = 200;

/// How many groups back an array looks for one to join.
const LOOKS_BACK: usize = 8;

/// The most results of a kernel.
const MOST_RESULTS: usize = 8;

/// The most arrays of a kernel that may have to be stored, but whose readers are in it too. A
/// normal random number is made of some 50.
const MOST_MEMBERS: usize = 100;

/// Rows from which on enough programs are busy with one each, however long it is.
const MANY_ROWS: usize = 64;

/// One step of a plan.
pub(crate) enum Part {
    /// A kernel that is made for it.
    Kernel { group: Group, body: Box<Body> },
    /// A kernel of the library.
    Library { vertex: usize },
}

/// The parts in order, and where each stored array is made.
pub(crate) struct Partition {
    pub(crate) parts: Vec<Part>,
    pub(crate) is_stored: Vec<bool>,
    pub(crate) home: Vec<Option<usize>>,
    /// Arrays that are asked for and have the elements of another one, in the same order: they
    /// share its memory.
    pub(crate) aliases: Vec<(usize, usize)>,
}

/// Divides a graph among kernels. Arrays that no kernel has to make (they have no elements) are
/// left out.
pub(crate) fn partition(graph: &Graph) -> Partition {
    let is_stored = may_be_stored(graph);
    let mut partition =
        Partition { parts: Vec::new(), is_stored, home: vec![None; graph.len()], aliases: Vec::new() };
    for vertex in 0..graph.len() {
        if partition.is_stored[vertex] {
            partition.place(graph, vertex);
        }
    }
    partition
}

fn may_be_stored(graph: &Graph) -> Vec<bool> {
    let mut stored = vec![false; graph.len()];
    // Through views, which read nothing by themselves, and casts to wider floats: what they are of
    // is less to store than what they make.
    let mut readers = vec![0usize; graph.len()];
    for vertex in (0..graph.len()).rev() {
        let through = |&user: &usize| match is_view(graph, user) || widens(graph, user) {
            true => readers[user].max(1),
            false => 1,
        };
        readers[vertex] = graph[vertex].users.iter().map(through).sum();
    }
    let (mut operations, mut depth) = (vec![0usize; graph.len()], vec![0usize; graph.len()]);
    let mut reads = vec![0usize; graph.len()];
    for vertex in 0..graph.len() {
        let of = &graph[vertex];
        let Some(op) = of.op() else {
            stored[vertex] = true;
            continue;
        };
        let inputs = of.inputs.iter().filter(|&&input| !stored[input]);
        operations[vertex] = inputs.clone().map(|&input| operations[input]).sum::<usize>();
        operations[vertex] += usize::from(!op.is_view());
        depth[vertex] = 1 + inputs.map(|&input| depth[input]).max().unwrap_or(0);
        reads[vertex] = arrays_read(graph, vertex, &stored, &reads);
        let is_constant = of.inputs.is_empty();
        let again = readers[vertex].saturating_sub(1);
        let is_reread = again.saturating_mul(reads[vertex].saturating_sub(1)) >= REREAD_FROM;
        let shared = again > 0 && (operations[vertex] >= STORED_FROM || is_reread) && !op.is_view();
        let large = operations[vertex] > MOST_OPERATIONS || depth[vertex] > DEEPEST;
        stored[vertex] =
            of.is_target || op.is_row_wise() || op.is_library() || !is_constant && (shared || large);
        if let Op::Take { .. } = op {
            // A gather would repeat what its source computes, unless that is a number or an index.
            if !is_constant_view(graph, of.inputs[0]) {
                store_source(graph, of.inputs[0], &mut stored);
            }
        }
        if op.is_library() {
            of.inputs.iter().for_each(|&input| store_source(graph, input, &mut stored));
        }
    }
    stored
}

/// How many arrays of its own size are read where an array is not stored: `reads` says it of its
/// inputs. Smaller ones, such as biases, stay in caches.
fn arrays_read(graph: &Graph, vertex: usize, stored: &[bool], reads: &[usize]) -> usize {
    if let Some(Op::Take { .. }) = graph[vertex].op() {
        return 1;
    }
    let len = graph[vertex].array.len();
    let inputs = graph[vertex].inputs.iter().filter(|&&input| 2 * graph[input].array.len() >= len);
    inputs.map(|&input| if stored[input] { 1 } else { reads[input] }).sum()
}

/// Whether an array is a cast of narrower elements.
fn widens(graph: &Graph, vertex: usize) -> bool {
    let of = &graph[vertex];
    let bytes = |vertex: usize| graph[vertex].array.dtype().bytes();
    matches!(of.op(), Some(Op::Cast)) && bytes(of.inputs[0]) < bytes(vertex)
}

fn is_view(graph: &Graph, vertex: usize) -> bool {
    graph[vertex].op().is_some_and(Op::is_view)
}

/// Whether an array is one number, or an index, seen in some order.
fn is_constant_view(graph: &Graph, vertex: usize) -> bool {
    let mut source = vertex;
    while is_view(graph, source) {
        source = graph[source].inputs[0];
    }
    graph[source].recipe.is_some() && graph[source].inputs.is_empty()
}

/// Has what an array is a view of stored.
fn store_source(graph: &Graph, vertex: usize, stored: &mut [bool]) {
    let mut source = vertex;
    while is_view(graph, source) && !stored[source] {
        source = graph[source].inputs[0];
    }
    stored[source] = true;
}

impl Partition {
    /// Finds a place for an array, after what it reads.
    fn place(&mut self, graph: &Graph, vertex: usize) {
        let of = &graph[vertex];
        let Some(op) = of.op() else { return };
        if self.home[vertex].is_some() || of.array.is_empty() {
            return;
        }
        if op.is_view() && self.alias(graph, vertex) {
            return;
        }
        self.compute(graph, vertex);
    }

    /// Has an array in memory that its reader cannot compute: a view too is a copy then.
    fn store(&mut self, graph: &Graph, vertex: usize) {
        self.is_stored[vertex] = true;
        self.aliases.retain(|&(alias, _)| alias != vertex);
        if self.home[vertex].is_none() && !graph[vertex].array.is_empty() {
            self.compute(graph, vertex);
        }
    }

    /// Computes an array, after what it reads.
    fn compute(&mut self, graph: &Graph, vertex: usize) {
        let of = &graph[vertex];
        let Some(op) = of.op() else { return };
        if op.is_library() {
            for &input in &of.inputs {
                self.place_library_input(graph, input);
            }
            self.home[vertex] = Some(self.parts.len());
            self.parts.push(Part::Library { vertex });
            return;
        }
        let alone = alone(graph, vertex);
        let body = loop {
            match Body::of(graph, &alone, &self.is_stored) {
                Ok(body) => break body,
                Err(Failure::Store(input)) if input != vertex && !self.is_stored[input] => {
                    self.store(graph, input);
                }
                // A group of one reads no member in another order.
                Err(Failure::Store(_) | Failure::Conflict) => return,
            }
        };
        let reader = self.first_reader(graph, vertex);
        for at in (self.parts.len().saturating_sub(LOOKS_BACK)..self.parts.len()).rev() {
            let Part::Kernel { group, body: other } = &self.parts[at] else { continue };
            let Some(joined) = aligned(graph, &alone, &body, group, other) else { continue };
            let Ok(body) = Body::of(graph, &joined, &self.is_stored) else { continue };
            let is_after_reader = reader.is_some_and(|reader| reader <= at);
            if !is_after_reader && body_reads(&body).all(|read| self.home[read].is_none_or(|home| home < at))
            {
                self.parts[at] = Part::Kernel { group: joined, body: Box::new(body) };
                self.home[vertex] = Some(at);
                return;
            }
        }
        let part = Part::Kernel { group: alone, body: Box::new(body) };
        match reader {
            Some(reader) => self.insert(reader, vertex, part),
            None => {
                self.home[vertex] = Some(self.parts.len());
                self.parts.push(part);
            }
        }
    }

    /// The first kernel of the library that reads through an array, which was a view when it was
    /// placed, and is stored now.
    fn first_reader(&self, graph: &Graph, vertex: usize) -> Option<usize> {
        if !is_view(graph, vertex) {
            return None;
        }
        let reads = |&input: &usize| {
            let mut source = input;
            while is_view(graph, source) && !self.is_stored[source] {
                source = graph[source].inputs[0];
            }
            source == vertex
        };
        self.parts.iter().position(|part| match part {
            Part::Library { vertex: of } => graph[*of].inputs.iter().any(reads),
            Part::Kernel { .. } => false,
        })
    }

    /// Whether an array is there before a part, or what it shares memory with is.
    pub(crate) fn is_there_before(&self, vertex: usize, part: usize) -> bool {
        let shared = self.aliases.iter().find(|(array, _)| *array == vertex);
        let is_shared_before = shared.is_none_or(|&(_, with)| self.is_there_before(with, part));
        is_shared_before && self.home[vertex].is_none_or(|home| home < part)
    }

    /// Inserts a part before another one.
    fn insert(&mut self, at: usize, vertex: usize, part: Part) {
        self.home.iter_mut().flatten().filter(|home| **home >= at).for_each(|home| *home += 1);
        self.home[vertex] = Some(at);
        self.parts.insert(at, part);
    }

    /// Lets a view share the memory of all that it is a view of, if it is that in order.
    fn alias(&mut self, graph: &Graph, vertex: usize) -> bool {
        let mut source = vertex;
        while source == vertex || is_view(graph, source) && !self.is_stored[source] {
            source = graph[source].inputs[0];
        }
        if graph[source].inputs.is_empty() && graph[source].op().is_some() {
            return false;
        }
        let was_stored = std::mem::replace(&mut self.is_stored[source], true);
        self.is_stored[vertex] = false;
        let dense = crate::shape::row_major(graph[vertex].shape());
        let is_whole = graph[vertex].array.len() == graph[source].array.len();
        let view = strided(graph, vertex, &self.is_stored);
        if is_whole && view.is_some_and(|view| view.source == source && view.strides == dense[..]) {
            self.place(graph, source);
            self.aliases.push((vertex, source));
            return true;
        }
        (self.is_stored[source], self.is_stored[vertex]) = (was_stored, true);
        false
    }

    /// Has an input of the library's in memory, if it is no view that the library can read.
    fn place_library_input(&mut self, graph: &Graph, input: usize) {
        if !self.is_stored[input] && strided(graph, input, &self.is_stored).is_none() {
            self.is_stored[input] = true;
        }
        if self.is_stored[input] {
            self.place(graph, input);
        }
    }

    /// The arrays that each part stores: those that are asked for, and that other parts read.
    pub(crate) fn results(&self, graph: &Graph) -> Vec<Vec<usize>> {
        let mut needed: Vec<bool> = (0..graph.len()).map(|vertex| graph[vertex].is_target).collect();
        self.aliases.iter().for_each(|&(_, source)| needed[source] = true);
        for part in &self.parts {
            self.reads(graph, part).into_iter().for_each(|read| needed[read] = true);
        }
        let of = |part: &Part| match part {
            Part::Kernel { group, .. } => {
                let members = group.members.iter().enumerate();
                members.filter(|(_, member)| needed[member.vertex]).map(|(at, _)| at).collect()
            }
            Part::Library { .. } => Vec::new(),
        };
        self.parts.iter().map(of).collect()
    }

    /// The arrays in memory that a part reads.
    pub(crate) fn reads(&self, graph: &Graph, part: &Part) -> Vec<usize> {
        match part {
            Part::Kernel { body, .. } => body_reads(body).collect(),
            Part::Library { vertex } => {
                let source = |&input: &usize| match self.is_stored[input] {
                    true => input,
                    false => strided(graph, input, &self.is_stored).map_or(input, |view| view.source),
                };
                graph[*vertex].inputs.iter().map(source).collect()
            }
        }
    }
}

/// The arrays in memory that a body reads.
pub(crate) fn body_reads(body: &Body) -> impl Iterator<Item = usize> + '_ {
    body.values.iter().filter_map(|value| match value {
        Value::Read { vertex, .. } => Some(*vertex),
        Value::Literal(_)
        | Value::Index(_)
        | Value::Unary(..)
        | Value::Binary(..)
        | Value::Compare(..)
        | Value::Select(_)
        | Value::Cast(..)
        | Value::Reduce(..)
        | Value::CumSum { .. }
        | Value::Checked { .. } => None,
    })
}

/// A view of an array in memory.
pub(crate) struct Strided {
    pub(crate) source: usize,
    pub(crate) offset: usize,
    pub(crate) strides: Vec<usize>,
}

/// What an array that is not stored is a view of, if steps forward in memory reach its elements.
pub(crate) fn strided(graph: &Graph, vertex: usize, is_stored: &[bool]) -> Option<Strided> {
    let group = alone(graph, vertex);
    if graph[vertex].op()?.is_row_wise() {
        return None;
    }
    let body = Body::of(graph, &group, is_stored).ok()?;
    let Value::Read { vertex: source, index, mask: None } = body.values.get(*body.results.first()?)? else {
        return None;
    };
    let shape = graph[*source].shape();
    let flat = match index.len() == shape.len() {
        true => super::affine::linear(index, &crate::shape::row_major(shape)),
        false => index.first()?.clone(),
    };
    if flat.terms.iter().any(|&(var, factor)| factor < 0 || matches!(var, Var::Value(_))) {
        return None;
    }
    let dense = crate::shape::row_major(graph[vertex].shape());
    let mut strides = Vec::new();
    for (axis, of) in group.members.first()?.axes.iter().enumerate() {
        let Some(of) = of else {
            strides.push(dense[axis]);
            continue;
        };
        // An axis that a reshape divides has no one stride, unless its parts lie as one.
        let parts: Vec<usize> = (0..body.dims.len()).filter(|&dim| body.dims[dim].axis == *of).collect();
        let as_one = parts
            .windows(2)
            .all(|pair| flat.factor(pair[0]) == flat.factor(pair[1]) * body.dims[pair[1]].extent as i64);
        let stride = flat.factor(*parts.last()?);
        if !as_one || stride == 0 {
            return None;
        }
        strides.push(stride as usize);
    }
    if crate::shape::overlaps(graph[vertex].shape(), &strides) {
        return None;
    }
    Some(Strided { source: *source, offset: flat.constant as usize, strides })
}

/// A group of one array.
pub(crate) fn alone(graph: &Graph, vertex: usize) -> Group {
    let of = &graph[vertex];
    let (shape, row): (&[usize], Vec<usize>) = match of.op() {
        Some(Op::Reduce { axes, .. }) => (graph[of.inputs[0]].shape(), axes.to_vec()),
        Some(Op::CumSum { axis, .. }) => (of.shape(), vec![*axis]),
        _ => (of.shape(), Vec::new()),
    };
    let mut group = Group::default();
    let mut axes = vec![None; shape.len()];
    // Kept axes first.
    for is_row in [false, true] {
        for (axis, &extent) in shape.iter().enumerate() {
            if row.contains(&axis) == is_row && extent != 1 {
                axes[axis] = Some(group.axes.len());
                group.axes.push(GroupAxis { extent, row: is_row });
            }
        }
    }
    group.members.push(Member { vertex, axes });
    group
}

/// The group with another array in it, if both count over the same axes, share what they read or
/// read nothing, and are not slower together.
fn aligned(graph: &Graph, alone: &Group, body: &Body, group: &Group, other: &Body) -> Option<Group> {
    if group.members.len() >= MOST_MEMBERS || targets(graph, group) >= MOST_RESULTS {
        return None;
    }
    let mut axis_of: Vec<Option<usize>> = vec![None; alone.axes.len()];
    // What reads nothing, as random numbers, costs nothing to keep together.
    let mut shares = [body, other].iter().all(|body| body_reads(body).next().is_none());
    for value in &body.values {
        let Value::Read { vertex, index, .. } = value else { continue };
        shares |= other
            .values
            .iter()
            .any(|value| matches!(value, Value::Read { vertex: read, .. } if read == vertex));
        let Some(member) = group.member(*vertex) else { continue };
        shares = true;
        assign(graph, member, index, body, &mut axis_of)?;
    }
    if !shares {
        return None;
    }
    if !is_one_to_one(alone, group, &axis_of) {
        return None;
    }
    assign_rest(alone, group, &mut axis_of)?;
    let axes = rows(alone, group, &axis_of)?;
    let member = alone.members.first()?;
    let own = member.axes.iter().map(|axis| axis.and_then(|axis| axis_of[axis])).collect();
    let mut members = group.members.clone();
    members.push(Member { vertex: member.vertex, axes: own });
    Some(Group { axes, members })
}

fn targets(graph: &Graph, group: &Group) -> usize {
    group.members.iter().filter(|member| graph[member.vertex].is_target).count()
}

/// Notes which axis of the group each axis is by which a member is read; `None` where it is read in
/// another order.
fn assign(
    graph: &Graph,
    member: &Member,
    index: &[super::affine::Affine],
    body: &Body,
    axis_of: &mut [Option<usize>],
) -> Option<()> {
    let reduced = match graph[member.vertex].op() {
        Some(Op::Reduce { axes, .. }) => axes.as_slice(),
        _ => &[],
    };
    let axes = member.axes.iter().enumerate().filter(|(axis, _)| !reduced.contains(axis)).map(|(_, of)| *of);
    let axes: Vec<Option<usize>> = axes.collect();
    if axes.len() != index.len() {
        return None;
    }
    for (of, index) in axes.into_iter().zip(index) {
        let Some(of) = of else { continue };
        // A whole axis, in however many parts.
        let axis = (0..axis_of.len()).find(|&axis| body.axis_index(axis) == *index)?;
        match axis_of[axis] {
            None => axis_of[axis] = Some(of),
            Some(before) if before == of => {}
            Some(_) => return None,
        }
    }
    Some(())
}

/// Whether each axis of the group is at most one of the array's, and has its extent. One by which
/// a member is read twice, as in the differences of all pairs, or in part, is not.
fn is_one_to_one(alone: &Group, group: &Group, axis_of: &[Option<usize>]) -> bool {
    axis_of.iter().enumerate().all(|(axis, of)| {
        of.is_none_or(|of| {
            alone.axes[axis].extent == group.axes[of].extent && !axis_of[..axis].contains(&Some(of))
        })
    })
}

/// Assigns axes of which no member says anything, in order.
fn assign_rest(alone: &Group, group: &Group, axis_of: &mut [Option<usize>]) -> Option<()> {
    let missing: Vec<usize> = (0..alone.axes.len()).filter(|&axis| axis_of[axis].is_none()).collect();
    let free: Vec<usize> = (0..group.axes.len()).filter(|&axis| !axis_of.contains(&Some(axis))).collect();
    let kept: Vec<usize> = free.iter().copied().filter(|&axis| !group.axes[axis].row).collect();
    let fits = |to: &[usize]| {
        let pairs = missing.iter().zip(to);
        to.len() == missing.len()
            && pairs.into_iter().all(|(&a, &b)| alone.axes[a].extent == group.axes[b].extent)
    };
    let to = if fits(&free) {
        &free
    } else if fits(&kept) {
        &kept
    } else {
        return None;
    };
    missing.iter().zip(to).for_each(|(&axis, &of)| axis_of[axis] = Some(of));
    Some(())
}

/// The axes of the group with the array in it.
fn rows(alone: &Group, group: &Group, axis_of: &[Option<usize>]) -> Option<Vec<GroupAxis>> {
    let own = |axis: usize| (0..axis_of.len()).find(|&from| axis_of[from] == Some(axis));
    let of_row = |from: usize| alone.axes[from].row;
    let covers_kept = (0..group.axes.len()).all(|axis| group.axes[axis].row || own(axis).is_some());
    if !covers_kept {
        return None;
    }
    if alone.has_rows() {
        if !group.has_rows() {
            // Results that are there for each element get the row's axes too.
            let axes = group.axes.iter().enumerate();
            let axes: Vec<GroupAxis> =
                axes.map(|(axis, of)| GroupAxis { row: own(axis).is_some_and(of_row), ..*of }).collect();
            let row: usize = axes.iter().filter(|axis| axis.row).map(|axis| axis.extent).product();
            let in_order = axes.windows(2).all(|pair| !pair[0].row || pair[1].row);
            return (fits_tile(row) && in_order).then_some(axes);
        }
        let same = (0..group.axes.len()).all(|axis| match own(axis) {
            Some(from) => of_row(from) == group.axes[axis].row,
            None => false,
        });
        return same.then(|| group.axes.clone());
    }
    let on_row = (0..group.axes.len()).filter(|&axis| group.axes[axis].row && own(axis).is_some()).count();
    let all = group.axes.iter().filter(|axis| axis.row).count();
    let is_fast = on_row == 0 || fits_tile(group.extent(true)) || group.extent(false) >= MANY_ROWS;
    ((on_row == 0 || on_row == all) && is_fast).then(|| group.axes.clone())
}
