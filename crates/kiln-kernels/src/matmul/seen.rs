//! Choices of plans for what was multiplied lately: an estimate compares every way to divide the
//! work, and a choice by measurement is kept under a text. Either would be much of a call's time on
//! the host.

use super::plan::{Choice, Form, Request, choose, of_form};
use kiln_ir::Scalar;
use kiln_runtime::CostModel;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Choices that a thread remembers for a device, after which it begins anew.
const MOST: usize = 256;

/// Devices for which a thread remembers choices, after which it begins anew.
const MOST_DEVICES: usize = 16;

/// The choices for a device.
struct Seen {
    /// Compared by its address, which no other model has while it is held here.
    gpu: Arc<CostModel>,
    /// By estimate. A request without a form always has one.
    choices: HashMap<(Request, Option<Form>), Option<Choice>>,
    /// By measurement, as they were at a revision of the device's choices.
    measured: HashMap<Question, Choice>,
    revision: u64,
}

/// What the choice by measurement depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) request: Request,
    /// Of both factors and the result.
    pub(super) types: [Scalar; 3],
    /// Whether the elements of a row are adjacent, for each factor.
    pub(super) by_rows: [bool; 2],
    /// Whether bulk copies can move the result.
    pub(super) movable: bool,
}

thread_local! {
    static SEEN: RefCell<Vec<Seen>> = const { RefCell::new(Vec::new()) };
}

/// [`choose`].
pub(super) fn choice(request: &Request, gpu: &Arc<CostModel>) -> Choice {
    answer(request, gpu, None).unwrap_or_else(|| choose(request, gpu))
}

/// [`of_form`].
pub(super) fn choice_of_form(request: &Request, gpu: &Arc<CostModel>, form: Form) -> Option<Choice> {
    answer(request, gpu, Some(form))
}

/// The choice by measurement that [`remember`] was told at this revision of the device's choices.
pub(super) fn measured(question: &Question, gpu: &Arc<CostModel>, revision: u64) -> Option<Choice> {
    SEEN.with_borrow_mut(|seen| {
        let seen = of_device(seen, gpu);
        if seen.revision == revision { seen.measured.get(question).copied() } else { None }
    })
}

/// Remembers a choice by measurement.
pub(super) fn remember(question: Question, gpu: &Arc<CostModel>, revision: u64, choice: Choice) {
    SEEN.with_borrow_mut(|seen| {
        let seen = of_device(seen, gpu);
        if seen.revision != revision || seen.measured.len() >= MOST {
            seen.measured.clear();
        }
        seen.revision = revision;
        seen.measured.insert(question, choice);
    });
}

fn answer(request: &Request, gpu: &Arc<CostModel>, form: Option<Form>) -> Option<Choice> {
    SEEN.with_borrow_mut(|seen| {
        let choices = &mut of_device(seen, gpu).choices;
        if choices.len() >= MOST {
            choices.clear();
        }
        *choices.entry((*request, form)).or_insert_with(|| match form {
            Some(form) => of_form(request, gpu, form),
            None => Some(choose(request, gpu)),
        })
    })
}

/// What was seen of a device.
fn of_device<'a>(seen: &'a mut Vec<Seen>, gpu: &Arc<CostModel>) -> &'a mut Seen {
    let at = seen.iter().position(|seen| Arc::ptr_eq(&seen.gpu, gpu)).unwrap_or_else(|| {
        if seen.len() >= MOST_DEVICES {
            seen.clear();
        }
        let (choices, measured) = (HashMap::new(), HashMap::new());
        seen.push(Seen { gpu: gpu.clone(), choices, measured, revision: 0 });
        seen.len() - 1
    });
    &mut seen[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::plan::ranked;

    #[test]
    fn what_was_seen_is_what_is_estimated() {
        // More devices than are remembered.
        for units in (100..).take(MOST_DEVICES + 2) {
            let gpu = Arc::new(CostModel { units, ..CostModel::H200 });
            assert_eq!(choice(&request(512), &gpu), choose(&request(512), &gpu));
        }
        let gpus = [132, 114].map(|units| Arc::new(CostModel { units, ..CostModel::H200 }));
        // Each twice, and more than are remembered between.
        for m in (1..2 * MOST).chain(1..8) {
            let request = request(m);
            for gpu in &gpus {
                assert_eq!(choice(&request, gpu), choose(&request, gpu));
                if m % 64 == 1 {
                    for other in ranked(&request, gpu) {
                        assert_eq!(choice_of_form(&request, gpu, other.form()), Some(other));
                    }
                }
            }
        }
    }

    #[test]
    fn measured_choices_are_those_of_one_revision_and_device() {
        let gpus = [132, 114].map(|units| Arc::new(CostModel { units, ..CostModel::H200 }));
        let question = |m, result| Question {
            request: request(m),
            types: [Scalar::BF16, Scalar::BF16, result],
            by_rows: [true, false],
            movable: true,
        };
        let ways = ranked(&request(512), &gpus[0]);
        let asked = question(512, Scalar::BF16);
        assert_eq!(measured(&asked, &gpus[0], 3), None);
        remember(asked, &gpus[0], 3, ways[1]);
        assert_eq!(measured(&asked, &gpus[0], 3), Some(ways[1]));
        assert_eq!(measured(&asked, &gpus[1], 3), None);
        assert_eq!(measured(&asked, &gpus[0], 4), None);
        assert_eq!(measured(&question(512, Scalar::F32), &gpus[0], 3), None);
        // What was remembered before a revision is not found under it.
        remember(question(513, Scalar::BF16), &gpus[0], 4, ways[2]);
        assert_eq!(measured(&asked, &gpus[0], 4), None);
        assert_eq!(measured(&question(513, Scalar::BF16), &gpus[0], 4), Some(ways[2]));
        // More than are remembered.
        for m in 1..=MOST + 1 {
            remember(question(m, Scalar::BF16), &gpus[0], 4, ways[0]);
            assert_eq!(measured(&question(m, Scalar::BF16), &gpus[0], 4), Some(ways[0]));
        }
    }

    fn request(m: usize) -> Request {
        Request {
            products: 1,
            m,
            n: 512,
            k: 2048,
            factor_bytes: 2,
            result_bytes: 2,
            sum_bytes: 4,
            two_level: false,
            packs: true,
            epilogue: false,
        }
    }
}
