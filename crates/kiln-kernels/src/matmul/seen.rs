//! Choices of plans for what was multiplied lately: an estimate compares every way to divide the
//! work, which would be much of a call's time on the host.

use super::plan::{Choice, Form, Request, choose, of_form};
use kiln_runtime::CostModel;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Choices that a thread remembers for a device, after which it begins anew.
const MOST: usize = 256;

/// Devices for which a thread remembers choices, after which it begins anew.
const MOST_DEVICES: usize = 16;

/// The choices for a device. A request without a form always has one.
struct Seen {
    /// Compared by its address, which no other model has while it is held here.
    gpu: Arc<CostModel>,
    choices: HashMap<(Request, Option<Form>), Option<Choice>>,
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

fn answer(request: &Request, gpu: &Arc<CostModel>, form: Option<Form>) -> Option<Choice> {
    SEEN.with_borrow_mut(|seen| {
        let choices = of_device(seen, gpu);
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
fn of_device<'a>(
    seen: &'a mut Vec<Seen>,
    gpu: &Arc<CostModel>,
) -> &'a mut HashMap<(Request, Option<Form>), Option<Choice>> {
    let at = seen.iter().position(|seen| Arc::ptr_eq(&seen.gpu, gpu)).unwrap_or_else(|| {
        if seen.len() >= MOST_DEVICES {
            seen.clear();
        }
        seen.push(Seen { gpu: gpu.clone(), choices: HashMap::new() });
        seen.len() - 1
    });
    &mut seen[at].choices
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
