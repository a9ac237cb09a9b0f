//! What the sanitizer found, in the user's words: which element of which parameter, who touched it,
//! where, and what to do about it.

use crate::machine::Machine;
use crate::memory_access::MemoryAccess;
use crate::shadow::{Race, Report};
use crate::value::View;
use kiln_backend::Finding;
use kiln_ir::{OpKind, Space};

/// An element that an access is about.
struct Element {
    /// `` `x[3, 4]` ``, or what else there is to say.
    text: String,
    /// Whether it is the user's by name, or by the line of its allocation.
    named: bool,
}

impl Machine<'_> {
    /// The finding of a report and what it says.
    pub fn explain(&self, report: &Report, place: MemoryAccess) -> (Finding, String) {
        match report {
            Report::Access(finding, detail) => {
                let (element, space) = (self.element_at(place, 0), place.space.name());
                let whose = if element.named { format!(", at {}", element.text) } else { String::new() };
                (*finding, format!("access of {space} memory: {detail}{whose}"))
            }
            Report::Uninitialized(skip) => {
                let element = self.element_at(place, *skip).text;
                let address = place.address.wrapping_add(*skip as u64);
                if place.space == Space::Shared && self.spaces.in_flight.covers(address) {
                    let detail = format!(
                        "{element} is read before a copy of it has arrived; put `commit_copies()` and `wait_copies(0)` between, and a `barrier()` for other threads"
                    );
                    return (Finding::Uninitialized, detail);
                }
                let advice = match place.space {
                    Space::Global => "write it before, or make the tensor by `zeros`",
                    Space::Shared => "write it before, with a `barrier()` between",
                    Space::Local => "write it before",
                };
                (Finding::Uninitialized, format!("{element} is read, but nothing has written it; {advice}"))
            }
            Report::Race(race) => (Finding::Race, self.explain_race(race, place)),
        }
    }

    fn explain_race(&self, race: &Race, place: MemoryAccess) -> String {
        let Race { now, by, before, by_before, .. } = race;
        let element = self.element_at(place, race.skip).text;
        let there = race
            .earlier
            .map_or_else(|| "an unknown location".into(), |op| self.kernel.describe(self.kernel.op(op).loc));
        let advice = match (race.within_block, *now, *before) {
            (true, ..) => "put a `barrier()` between the two",
            (false, "written", "written") => "let one program alone write it, or use atomic operations",
            (false, ..) => "let another launch do one of the two, or use atomic operations",
        };
        format!(
            "{element} is {now} by {by} and was {before} by {by_before} at {there}, and nothing orders the two; {advice}"
        )
    }

    /// The element that lies so many bytes behind a place.
    fn element_at(&self, place: MemoryAccess, skip: usize) -> Element {
        let address = place.address.wrapping_add(skip as u64);
        let found = match place.space {
            Space::Global => self.parameter(address),
            Space::Shared | Space::Local => self.allocation(place.space, address),
        };
        match found {
            Some(text) => Element { text, named: true },
            None => Element { text: format!("{} memory at {address:#x}", place.space.name()), named: false },
        }
    }

    /// The element of a parameter at an address.
    fn parameter(&self, address: u64) -> Option<String> {
        let args = &self.kernel.block(self.kernel.body).args;
        self.kernel.params.iter().zip(args).find_map(|(param, arg)| {
            let view = self.views[arg.index()].as_ref()?;
            let index = index_in(view, address)?;
            Some(format!("`{}{}`", param.name, bracketed(&index)))
        })
    }

    /// The element of an allocation of the block or thread at an address.
    fn allocation(&self, space: Space, address: u64) -> Option<String> {
        self.loaded.allocations.iter().find_map(|(&op, &base)| {
            let data = self.kernel.op(op);
            let OpKind::Alloc { space: of, elem, shape } = &data.kind else { return None };
            let size = u64::from(elem.bytes());
            let mut flat = (address.checked_sub(base)? / size) as usize;
            if *of != space || flat >= shape.len() {
                return None;
            }
            let mut index = vec![0; shape.rank()];
            for axis in (0..shape.rank()).rev() {
                let extent = shape[axis] as usize;
                index[axis] = (flat % extent) as i64;
                flat /= extent;
            }
            let there = self.kernel.describe(data.loc);
            Some(format!("element {} of the {} memory of {there}", bracketed(&index), space.name()))
        })
    }
}

/// The index of the element of a view at an address, if its strides lead there.
fn index_in(view: &View, address: u64) -> Option<Vec<i64>> {
    if view.space != Space::Global || view.extents.contains(&0) {
        return None;
    }
    let mut left = (address.checked_sub(view.base)? / view.elem_bytes.max(1)) as i64;
    let mut axes: Vec<usize> = (0..view.extents.len()).filter(|&axis| view.strides[axis] > 0).collect();
    axes.sort_unstable_by_key(|&axis| (-view.strides[axis], axis));
    let mut index = vec![0; view.extents.len()];
    for axis in axes {
        index[axis] = (left / view.strides[axis]).min(view.extents[axis] - 1);
        left -= index[axis] * view.strides[axis];
    }
    (left == 0).then_some(index)
}

fn bracketed(index: &[i64]) -> String {
    let index: Vec<String> = index.iter().map(i64::to_string).collect();
    format!("[{}]", index.join(", "))
}
