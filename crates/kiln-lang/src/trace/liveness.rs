//! Which variables an `if`, a fault region or a loop must hand on: those it writes that are read
//! afterwards.

use super::item::{Item, Loop, NamedAs, Raw, Region, Var};
use super::var_set::VarSet;

/// Fills in the `live` lists of every step in a region, given what is read after it; gives what it
/// reads before writing.
pub(super) fn annotate(region: &mut Region, after: &VarSet) -> VarSet {
    let mut live = after.clone();
    let mut births = births(region);
    for (position, item) in region.items.iter_mut().enumerate().rev() {
        match item {
            Item::Op { .. } | Item::Name(_) => {}
            Item::Get { var, .. } => {
                live.insert(*var);
            }
            Item::Set { var, .. } => {
                live.remove(*var);
            }
            Item::If { then, otherwise, live: handed_on, .. } => {
                let mut written = VarSet::default();
                writes(then, &mut written);
                writes(otherwise, &mut written);
                *handed_on = written.and(&live).collect();
                let mut before = annotate(then, &live);
                before.union(&annotate(otherwise, &live));
                live = before;
            }
            Item::FaultRegion { body, live: handed_on, .. } => {
                let mut written = VarSet::default();
                writes(body, &mut written);
                *handed_on = written.and(&live).collect();
                live = annotate(body, &live);
                // After a fault they are what they were before.
                handed_on.iter().for_each(|var| live.insert(*var));
            }
            Item::Tasks { tasks, .. } => {
                // They write nothing that outlives them.
                let mut before = live.clone();
                for (_, region) in tasks {
                    before.union(&annotate(region, &live));
                }
                live = before;
            }
            Item::Loop { head, body, live: handed_on, .. } => {
                let mut written = VarSet::default();
                writes(body, &mut written);
                if let Loop::While { test, .. } = head {
                    writes(test, &mut written);
                }
                // What is live at the head is live at the end of the body: repeat until nothing is
                // added.
                let mut at_head = live.clone();
                loop {
                    let mut now = annotate(body, &at_head);
                    now.union(&live);
                    if let Loop::While { test, .. } = head {
                        now = annotate(test, &now);
                    }
                    if !at_head.union(&now) {
                        break;
                    }
                }
                *handed_on = written.and(&at_head).collect();
                live = at_head;
            }
        }
        while births.last().is_some_and(|(first, _)| *first == position) {
            births.pop().map(|(_, var)| live.remove(var));
        }
    }
    live
}

/// Lets every step inside a region hand on those of some variables that it writes, also where
/// nothing reads them afterwards: a debugger may ask for them.
pub(super) fn keep(region: &mut Region, kept: &VarSet) {
    for item in &mut region.items {
        let mut written = VarSet::default();
        let handed_on = match item {
            Item::Op { .. } | Item::Name(_) | Item::Get { .. } | Item::Set { .. } => continue,
            Item::Tasks { tasks, .. } => {
                tasks.iter_mut().for_each(|(_, region)| keep(region, kept));
                continue;
            }
            Item::If { then, otherwise, live, .. } => {
                for arm in [then, otherwise] {
                    writes(arm, &mut written);
                    keep(arm, kept);
                }
                live
            }
            Item::FaultRegion { body, live, .. } => {
                writes(body, &mut written);
                keep(body, kept);
                live
            }
            Item::Loop { head, body, live, .. } => {
                writes(body, &mut written);
                keep(body, kept);
                if let Loop::While { test, .. } = head {
                    writes(test, &mut written);
                    keep(test, kept);
                }
                live
            }
        };
        let more: Vec<Var> = written.and(kept).filter(|var| !handed_on.contains(var)).collect();
        handed_on.extend(more);
    }
}

/// The variables that have a name, in a region and inside it.
pub(super) fn named(region: &Region, into: &mut VarSet) {
    for item in &region.items {
        match item {
            Item::Name(item) => {
                if let NamedAs::Device(Raw::Var(var)) = item.what {
                    into.insert(var);
                }
            }
            Item::Op { .. } | Item::Get { .. } | Item::Set { .. } => {}
            Item::Tasks { tasks, .. } => tasks.iter().for_each(|(_, region)| named(region, into)),
            Item::If { then, otherwise, .. } => [then, otherwise].iter().for_each(|arm| named(arm, into)),
            Item::FaultRegion { body, .. } => named(body, into),
            Item::Loop { head, body, .. } => {
                named(body, into);
                if let Loop::While { test, .. } = head {
                    named(test, into);
                }
            }
        }
    }
}

/// The variables that a region owns, each with the position of the first step that mentions it, in
/// order: before that, none is live.
fn births(region: &Region) -> Vec<(usize, Var)> {
    let mut waiting: VarSet = region.owned.iter().copied().collect();
    let mut births = Vec::with_capacity(region.owned.len());
    for (position, item) in region.items.iter().enumerate() {
        if waiting.is_empty() {
            break;
        }
        mentions(item, &mut |var| {
            if waiting.remove(var) {
                births.push((position, var));
            }
        });
    }
    births
}

/// Calls `visit` on every variable that a step or the steps inside it read or write.
fn mentions(item: &Item, visit: &mut dyn FnMut(Var)) {
    let mut inside = |region: &Region| {
        for item in &region.items {
            mentions(item, visit);
        }
    };
    match item {
        Item::Op { .. } | Item::Name(_) => {}
        Item::Get { var, .. } | Item::Set { var, .. } => visit(*var),
        Item::If { then, otherwise, .. } => {
            inside(then);
            inside(otherwise);
        }
        Item::FaultRegion { body, .. } => inside(body),
        Item::Tasks { tasks, .. } => tasks.iter().for_each(|(_, region)| inside(region)),
        Item::Loop { head, body, .. } => {
            if let Loop::While { test, .. } = head {
                inside(test);
            }
            inside(body);
        }
    }
}

/// Adds the variables that a region writes and that outlive it.
fn writes(region: &Region, into: &mut VarSet) {
    if region.owned.is_empty() {
        return writes_of_items(region, into);
    }
    let mut inner = VarSet::default();
    writes_of_items(region, &mut inner);
    for var in &region.owned {
        inner.remove(*var);
    }
    into.union(&inner);
}

fn writes_of_items(region: &Region, into: &mut VarSet) {
    for item in &region.items {
        match item {
            Item::Op { .. } | Item::Get { .. } | Item::Name(_) => {}
            Item::Set { var, .. } => into.insert(*var),
            Item::If { then, otherwise, .. } => {
                writes(then, into);
                writes(otherwise, into);
            }
            Item::FaultRegion { body, .. } => writes(body, into),
            Item::Tasks { tasks, .. } => tasks.iter().for_each(|(_, region)| writes(region, into)),
            Item::Loop { head, body, .. } => {
                writes(body, into);
                if let Loop::While { test, .. } = head {
                    writes(test, into);
                }
            }
        }
    }
}

/// Whether a region writes a variable that outlives it.
pub(crate) fn writes_outer(region: &Region) -> bool {
    let mut written = VarSet::default();
    writes(region, &mut written);
    !written.is_empty()
}
