//! Rules of the level, the parameters and what is known of them.

use crate::kernel::{IntFact, Kernel, LaunchHints, Level, Param};
use crate::types::{MAX_VIEW_RANK, Space, Type};

pub(super) fn check(kernel: &Kernel) -> Vec<String> {
    let mut errors: Vec<String> = level(kernel.level).err().into_iter().collect();
    for (i, param) in kernel.params.iter().enumerate() {
        if let Err(message) = self::param(param) {
            errors.push(format!("parameter `{}` {message}", param.name));
        }
        if kernel.params[..i].iter().any(|p| p.name == param.name) {
            errors.push(format!("two parameters are called `{}`", param.name));
        }
    }
    errors.extend(super::explicit::cluster(kernel).err());
    errors.extend(hints(kernel));
    if u64::from(kernel.scratch_bytes) > super::MAX_SHARED {
        let (given, most) = (kernel.scratch_bytes, super::MAX_SHARED);
        errors.push(format!("scratch memory of {given} bytes, expected at most {most}"));
    }
    let values = kernel.counts().0;
    let args = &kernel.block(kernel.body).args;
    let matches = args.len() == kernel.params.len()
        && args.iter().zip(&kernel.params).all(|(v, p)| v.index() < values && *kernel.ty(*v) == p.ty);
    if !matches {
        errors.push("the arguments of the body are not the parameters".into());
    }
    errors
}

fn level(level: Level) -> Result<(), String> {
    match level {
        Level::Tile { warps: Some(n) } if !n.is_power_of_two() || n > 32 => {
            Err(format!("the number of warps is {n}, expected a power of two up to 32"))
        }
        Level::Thread { block } => match block.iter().map(|&e| u128::from(e)).product::<u128>() {
            1..=1024 => Ok(()),
            n => Err(format!("a block of {block:?} has {n} threads, expected 1 to 1024")),
        },
        _ => Ok(()),
    }
}

/// What is wrong with the hints of the launch.
fn hints(kernel: &Kernel) -> Option<String> {
    let LaunchHints { registers, stages } = kernel.hints;
    if let Some(n) = registers
        && !(24..=255).contains(&n)
    {
        return Some(format!("at most {n} registers of a thread, expected 24 to 255"));
    }
    match (stages, kernel.level) {
        (Some(_), Level::Thread { .. }) => Some("stages of a kernel over threads, which has none".into()),
        (Some(n), Level::Tile { .. }) if !(1..=16).contains(&n) => {
            Some(format!("{n} stages, expected 1 to 16"))
        }
        (Some(_) | None, Level::Tile { .. }) | (None, Level::Thread { .. }) => None,
    }
}

fn param(param: &Param) -> Result<(), String> {
    let facts = &param.facts;
    match &param.ty {
        Type::View(view) => {
            if view.space != Space::Global {
                return Err(format!("is a view of {} memory, expected global", view.space.name()));
            }
            view_rank(view.rank)?;
            for (what, list) in [("extents", &facts.extents), ("strides", &facts.strides)] {
                if !list.is_empty() && list.len() != view.rank as usize {
                    return Err(format!("has facts on {} {what}, its rank is {}", list.len(), view.rank));
                }
                list.iter().try_for_each(|fact| self::fact(what, fact))?;
            }
            if facts.align != 0 && !facts.align.is_power_of_two() {
                return Err(format!("has alignment {}, expected a power of two", facts.align));
            }
            if facts.value != IntFact::default() {
                return Err("is a view and has facts on its value".into());
            }
        }
        Type::Tile(tile) => {
            if tile.shape.rank() != 0 {
                return Err(format!("is a {}, expected a view or a scalar", param.ty));
            }
            if param.mutable {
                return Err("is a scalar and mutable".into());
            }
            if facts.align != 0
                || !facts.extents.is_empty()
                || !facts.strides.is_empty()
                || facts.span_fits_i32
            {
                return Err("is a scalar and has the facts of a view".into());
            }
            if facts.value != IntFact::default() && !tile.elem.is_int() {
                return Err(format!("is {} and has the facts of an integer", tile.elem));
            }
            fact("value", &facts.value)?;
        }
    }
    Ok(())
}

/// Refuses a view with more axes than any stage has room for.
pub(super) fn view_rank(rank: u32) -> Result<(), String> {
    if rank as usize <= MAX_VIEW_RANK {
        return Ok(());
    }
    Err(format!("is a view of rank {rank}, but a view has at most {MAX_VIEW_RANK} axes (MAX_VIEW_RANK)"))
}

fn fact(what: &str, fact: &IntFact) -> Result<(), String> {
    if !fact.divisor.is_power_of_two() {
        return Err(format!("has {what} divisible by {}, expected a power of two", fact.divisor));
    }
    let contradicts = |v: i64| {
        v % i64::from(fact.divisor) != 0 || (fact.fits_i32 && !(0..=i64::from(i32::MAX)).contains(&v))
    };
    match fact.equals {
        Some(v) if contradicts(v) => Err(format!("has {what} facts that contradict its value {v}")),
        _ => Ok(()),
    }
}
