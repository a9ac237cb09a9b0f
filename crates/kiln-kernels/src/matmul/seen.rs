//! Choices of plans for what was multiplied lately: an estimate looks at every way to divide the
//! work, which would be much of a call's time on the host.

use super::plan::{Choice, Form, Request, choose, of_form};
use kiln_runtime::CostModel;
use std::cell::RefCell;
use std::collections::HashMap;

/// Choices that a thread remembers, after which it begins anew.
const MOST: usize = 256;

/// A question, and its answer. One without a form always has one.
type Seen = HashMap<(Request, CostModel, Option<Form>), Option<Choice>>;

thread_local! {
    static SEEN: RefCell<Seen> = RefCell::new(HashMap::new());
}

/// [`choose`].
pub(super) fn choice(request: &Request, gpu: &CostModel) -> Choice {
    answer(request, gpu, None).unwrap_or_else(|| choose(request, gpu))
}

/// [`of_form`].
pub(super) fn choice_of_form(request: &Request, gpu: &CostModel, form: Form) -> Option<Choice> {
    answer(request, gpu, Some(form))
}

fn answer(request: &Request, gpu: &CostModel, form: Option<Form>) -> Option<Choice> {
    SEEN.with_borrow_mut(|seen| {
        if seen.len() >= MOST {
            seen.clear();
        }
        *seen.entry((*request, *gpu, form)).or_insert_with(|| match form {
            Some(form) => of_form(request, gpu, form),
            None => Some(choose(request, gpu)),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::plan::ranked;

    #[test]
    fn what_was_seen_is_what_is_estimated() {
        let gpus = [132, 114].map(|units| CostModel { units, ..CostModel::H200 });
        // Each twice, and more than are remembered between.
        for m in (1..2 * MOST).chain(1..8) {
            let request = Request {
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
            };
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
}
