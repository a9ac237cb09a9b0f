//! Where the source of a kernel stood when its code was made, and where it stands now.

use crate::bytes::{Reader, Writer};
use kiln_ir::Kernel;
use std::collections::HashMap;

/// The places that compiled code names in reports, each with the one it has in the source as it is
/// now. Code that was kept without regard to places is loaded with these, so that faults name
/// today's lines.
///
/// ```
/// use kiln_backend::Places;
/// use kiln_ir::*;
/// let kernel = |line: u32| {
///     let mut kernel = Kernel::new("k", Level::Tile { warps: None });
///     let (file, body) = (kernel.file("k.rs"), kernel.body);
///     let (kind, ty) = (OpKind::Const(Literal::f32(1.0)), Type::scalar(Scalar::F32));
///     kernel.append(body, kind, &[], &[ty], &[], Loc { file, line, column: 5 });
///     kernel
/// };
/// let kept = Places::record(&kernel(10));
/// let places = Places::since(&kept, &kernel(12)).unwrap();
/// assert_eq!(places.now("k.rs:10:5"), "k.rs:12:5");
/// assert!(Places::since(&kept, &kernel(10)).unwrap().are_same());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    moved: HashMap<String, String>,
}

impl Places {
    /// The places of a kernel's operations, in the order of the operations, to be kept.
    pub fn record(kernel: &Kernel) -> Vec<u8> {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let (mut names, mut sequence) = (Writer::default(), Writer::default());
        kernel.walk(|_, op| {
            let next = numbers.len() as u32;
            let number = *numbers.entry(kernel.describe(op.loc)).or_insert_with_key(|place| {
                names.text(place);
                next
            });
            sequence.number(number);
        });
        let mut out = Writer::default();
        out.number(numbers.len() as u32);
        out.0.append(&mut names.0);
        out.number((sequence.0.len() / 4) as u32);
        out.0.append(&mut sequence.0);
        out.0
    }

    /// The places since they were recorded of a kernel that differs from this one in places alone.
    ///
    /// # Errors
    /// What is wrong with the bytes. Among that is a place from which operations have gone to
    /// several: a report of it would have no place now.
    pub fn since(recorded: &[u8], kernel: &Kernel) -> Result<Places, &'static str> {
        let mut input = Reader::new(recorded);
        let count = input.count(4)?;
        let names = (0..count).map(|_| input.text()).collect::<Result<Vec<_>, _>>()?;
        let count = input.count(4)?;
        let mut now: Vec<Option<String>> = vec![None; names.len()];
        let mut seen = 0;
        let mut outcome = Ok(());
        kernel.walk(|_, op| {
            if outcome.is_err() || seen == count {
                outcome = outcome.and(Err("they are of another kernel"));
                return;
            }
            seen += 1;
            outcome = input.number().and_then(|number| {
                let slot = now.get_mut(number as usize).ok_or("a place in them is none")?;
                let place = kernel.describe(op.loc);
                match slot {
                    Some(known) if *known != place => Err("lines of the kernel were divided since"),
                    _ => {
                        *slot = Some(place);
                        Ok(())
                    }
                }
            });
        });
        outcome?;
        if seen != count || !input.is_empty() {
            return Err("they are of another kernel");
        }
        let pairs = names.into_iter().zip(now).filter_map(|(old, new)| Some((old, new?)));
        let moved = pairs.filter(|(old, new)| old != new).map(|(old, new)| (old.to_owned(), new));
        Ok(Places { moved: moved.collect() })
    }

    /// Whether none has moved.
    pub fn are_same(&self) -> bool {
        self.moved.is_empty()
    }

    /// A place as it is now.
    pub fn now<'a>(&'a self, place: &'a str) -> &'a str {
        self.moved.get(place).map_or(place, String::as_str)
    }
}
