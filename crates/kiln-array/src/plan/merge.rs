//! Small kernels that have nothing to do with each other, made one: the updates of a network's
//! biases, of which each takes less time than its launch.

use super::body::{Body, Group, Member, Value};
use super::chain::Fused;
use super::graph::Graph;
use super::lower::lower;
use super::partition::{Part, Partition, body_reads};
use kiln_runtime::Device;
use std::collections::HashMap;

/// The most elements of a kernel that is small: a few microseconds' worth of memory.
const SMALL: usize = 1 << 16;

/// The most results and the most reads of what is made one: four updates of AdamW, with parameters
/// in narrower floats too.
const MOST_RESULTS: usize = 16;
const MOST_READS: usize = 20;

/// Makes one of small kernels that count over axes of the same extents, where the later ones read
/// only what is there before the first. `results` says what each part stores, and parts with an
/// epilogue are left as they are.
pub(crate) fn merge(
    graph: &Graph,
    partition: &mut Partition,
    results: &[Vec<usize>],
    epilogues: &[Option<Fused>],
) {
    let mut results = results.to_vec();
    let mut open: HashMap<Vec<usize>, usize> = HashMap::new();
    for at in 0..partition.parts.len() {
        if results[at].is_empty() || epilogues[at].is_some() {
            continue;
        }
        let Some(device) = is_small(graph, &partition.parts[at]) else { continue };
        let Part::Kernel { group, .. } = &partition.parts[at] else { continue };
        let extents: Vec<usize> = group.axes.iter().map(|axis| axis.extent).collect();
        let joined = open.get(&extents).and_then(|&into| {
            let joined = joined(graph, partition, [into, at], &results, device)?;
            Some((into, joined))
        });
        let Some((into, (part, stored))) = joined else {
            open.insert(extents, at);
            continue;
        };
        let Part::Kernel { group, .. } = &partition.parts[at] else { continue };
        for member in &group.members {
            partition.home[member.vertex] = Some(into);
        }
        partition.parts[into] = part;
        results[into] = stored;
        // Nothing is left of it.
        let empty = Part::Kernel { group: Group::default(), body: Box::new(Body::nothing()) };
        partition.parts[at] = empty;
        results[at].clear();
    }
}

/// The device of a part that is a small kernel of elements; `None` of others, and where a kernel
/// takes few tensors.
fn is_small<'g>(graph: &'g Graph, part: &Part) -> Option<&'g Device> {
    let Part::Kernel { group, .. } = part else { return None };
    let device = graph[group.members.first()?.vertex].array.device()?;
    let is_small = !group.has_rows() && group.extent(false) <= SMALL;
    (is_small && super::sizes::takes_many(device)).then_some(device)
}

/// Two parts as one at the place of the first, with what it stores.
fn joined(
    graph: &Graph,
    partition: &Partition,
    [into, at]: [usize; 2],
    results: &[Vec<usize>],
    device: &Device,
) -> Option<(Part, Vec<usize>)> {
    let [Part::Kernel { group: first, body: of_first }, Part::Kernel { group, body: of_other }] =
        [&partition.parts[into], &partition.parts[at]]
    else {
        return None;
    };
    let device_of = |group: &Group| graph[group.members.first()?.vertex].array.device();
    let is_there = |value: &Value| match value {
        Value::Read { vertex, .. } => partition.is_there_before(*vertex, into),
        _ => true,
    };
    if results[into].len() + results[at].len() > MOST_RESULTS
        || device_of(first) != device_of(group)
        || !of_other.values.iter().all(is_there)
    {
        return None;
    }
    let members: Vec<Member> = first.members.iter().chain(&group.members).cloned().collect();
    let joined = Group { axes: first.axes.clone(), members };
    let body = Body::of(graph, &joined, &partition.is_stored).ok()?;
    // What was stored after a part was made is read by this body, though not by the part's: it may
    // not be there yet, or nobody stores it.
    let is_read = |value: &Value| match value {
        Value::Read { vertex, .. } => {
            body_reads(of_first).chain(body_reads(of_other)).any(|read| read == *vertex)
        }
        _ => true,
    };
    if !body.values.iter().all(|value| is_there(value) && is_read(value)) {
        return None;
    }
    if body.values.iter().filter(|value| matches!(value, Value::Read { .. })).count() > MOST_READS {
        return None;
    }
    let later = results[at].iter().map(|member| first.members.len() + member);
    let stored: Vec<usize> = results[into].iter().copied().chain(later).collect();
    lower(graph, &joined, &body, &stored, device)?;
    Some((Part::Kernel { group: joined, body: Box::new(body) }, stored))
}
