//! In which ways a device can compute attention, and which is taken.

use super::schedule::suits;
use super::{Problem, hopper, plain};
use crate::tuning::{self, Choosing, class};
use kiln_lang::prelude::*;
use kiln_runtime::{DynTensor, Execution, Result, Tensor};
use std::fmt;
use std::str::FromStr;

/// A kernel and how it divides the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The kernel for Hopper GPUs: tasks of 64 queries, keys of a turn, stages of them.
    Explicit { tasks: usize, keys: usize, stages: usize },
    /// The kernel for every device: queries of a program, keys of a turn.
    Plain { queries: usize, keys: usize },
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Explicit { tasks, keys, stages } => {
                write!(f, "{} x {keys} in {stages} stages", tasks * hopper::ROWS)
            }
            Way::Plain { queries, keys } => write!(f, "{queries} x {keys}"),
        }
    }
}

impl FromStr for Way {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Way, ()> {
        let number = |text: &str| text.parse::<usize>().map_err(|_| ());
        let (queries, rest) = text.split_once(" x ").ok_or(())?;
        let queries = number(queries)?;
        let Some(rest) = rest.strip_suffix(" stages") else {
            return Ok(Way::Plain { queries, keys: number(rest)? });
        };
        let (keys, stages) = rest.split_once(" in ").ok_or(())?;
        Ok(Way::Explicit { tasks: queries / hopper::ROWS, keys: number(keys)?, stages: number(stages)? })
    }
}

/// The way for a problem: the one that was measured, if that is asked for, else the fastest of
/// those tried (`bench/notes.md`).
pub(super) fn choose<T: Float + Accumulate<Acc = f32>>(problem: &Problem<'_, T>) -> Result<Way> {
    Ok(tuned(problem)?.unwrap_or_else(|| estimate(problem)))
}

fn estimate<T: Float + Accumulate<Acc = f32>>(problem: &Problem<'_, T>) -> Way {
    let width = problem.q.shape()[3];
    if suits(problem) {
        return explicit(&hopper::AttentionPlan::divisions(width)[0]);
    }
    let (device, tiles) = (problem.q.device(), plain::tiles::<T>(problem.q.device(), width));
    let (queries, keys) = tiles[0];
    if device.capabilities().execution != Execution::Simd {
        return Way::Plain { queries, keys };
    }
    // A processor computes what lies beyond the end of a short sequence too.
    let within = |length: usize, most: usize| length.next_power_of_two().clamp(16, most);
    let [queries, keys] = [(&problem.q, queries), (&problem.k, keys)].map(|(x, of)| within(x.shape()[2], of));
    Way::Plain { queries, keys }
}

/// All ways that are considered, the fastest of those tried first.
fn of<T: Float + Accumulate<Acc = f32>>(problem: &Problem<'_, T>) -> Vec<Way> {
    let width = problem.q.shape()[3];
    let plain = plain::tiles::<T>(problem.q.device(), width);
    let mut all: Vec<Way> = if suits(problem) {
        hopper::AttentionPlan::divisions(width).iter().map(explicit).collect()
    } else {
        Vec::new()
    };
    all.extend(plain.iter().map(|&(queries, keys)| Way::Plain { queries, keys }));
    all
}

fn explicit(&(tasks, keys, stages): &(usize, usize, usize)) -> Way {
    Way::Explicit { tasks, keys, stages }
}

/// The way by measurement, for a problem that has something to do.
fn tuned<T: Float + Accumulate<Acc = f32>>(problem: &Problem<'_, T>) -> Result<Option<Way>> {
    let Problem { q, k, packed, mask, tuning, .. } = problem;
    let ([batch, heads, queries, width], [_, key_heads, keys, _]) = (q.shape(), k.shape());
    if tuning.is_off() || [batch, heads, queries, keys, width].contains(&0) {
        return Ok(None);
    }
    let limit = |limit: Option<usize>| limit.map_or("all".into(), |n| class(n).to_string());
    let lengths = match packed {
        Some(packed) => {
            format!("{} sequences of up to {}", class(packed.sequences.len()), class(packed.most_queries()))
        }
        None => format!("{} x {} queries, {} keys", class(batch), class(queries), class(keys)),
    };
    let question = format!(
        "attention, {}, {lengths}, {} heads of {} with keys of {}, {} before and {} after{}",
        T::SCALAR,
        class(heads),
        class(width),
        class(key_heads),
        limit(mask.left),
        limit(mask.right),
        if problem.soft_cap.is_some() { ", capped" } else { "" },
    );
    let known = || of(problem);
    let named = |name: &str| name.parse().ok().filter(|way| known().contains(way));
    let ways = || {
        known().into_iter().take(tuning::MOST).map(|way| tuning::Way { name: way.to_string(), way }).collect()
    };
    let device = q.device();
    let choosing = Choosing { device, tuning: *tuning, question: &question };
    let result = || DynTensor::uninit(device, T::SCALAR, &[batch * heads, queries, width]);
    choosing.choose(&named, &ways, &result, &|way, to| problem.elsewhere(to.downcast_ref()?)?.run(way))
}

impl<'a, T: Float + Accumulate<Acc = f32>> Problem<'a, T> {
    /// The same with results `[batch · heads, queries, width]` in other memory.
    fn elsewhere(&self, to: &Tensor<T, 3>) -> Result<Problem<'a, T>> {
        let shape = self.q.shape();
        Ok(Problem {
            q: self.q.alias(),
            k: self.k.alias(),
            v: self.v.alias(),
            o: to.reshape(shape)?,
            sums: self.q.device().uninit([shape[0], shape[1], shape[2]])?,
            ..*self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_known_by_their_names() {
        for way in [Way::Explicit { tasks: 3, keys: 128, stages: 4 }, Way::Plain { queries: 16, keys: 32 }] {
            assert_eq!(way.to_string().parse(), Ok(way));
        }
        for text in ["", "3", "3 x", "3 x y", "3 x 4 in stages", "3 x 4 in five stages"] {
            assert_eq!(text.parse::<Way>(), Err(()), "{text}");
        }
    }
}
