//! `for`, `while` and `loop`.
//!
//! A loop over a host iterator, or while a host condition holds, runs on the host: it unrolls. A
//! loop over a [`DeviceRange`] or a device condition is traced once, into a region. `loop` shows
//! which it is by how its first iteration ends: if it was left by the host's own `break`, or can
//! only be, it is unrolled; else it belongs to the device.

use super::condition::{Decision, scalar_condition};
use super::range::{DeviceRange, RangeEnds};
use crate::elem::Elem;
use crate::trace::{Bounds, Id, Raw, Region, RegionKind, ScopeKind, Site, error, with};
use crate::val::Val;
use kiln_ir::{OpKind, Scalar, Type};
use std::marker::PhantomData;
use std::panic::Location;

/// Host loops that go on for longer than this while a kernel is traced do not end.
const MAX_HOST_ITERATIONS: u32 = 1 << 20;

/// A loop that is unrolled more often than this is reported, if it records anything.
const MANY_ITERATIONS: u32 = 4096;

/// What a `for` loops over.
pub struct LoopProbe<S>(pub S);

impl<T: Elem> LoopProbe<DeviceRange<T>> {
    /// The loop on the device.
    pub fn begin(self) -> DeviceFor<T> {
        DeviceFor { body: Body::new(self.0.ends), elem: PhantomData }
    }
}

/// The host's side of [`LoopProbe`].
pub trait LoopHost<S> {
    #[track_caller]
    fn begin(self) -> HostFor<S::IntoIter>
    where
        S: IntoIterator;
}

impl<S> LoopHost<S> for LoopProbe<S> {
    #[track_caller]
    fn begin(self) -> HostFor<S::IntoIter>
    where
        S: IntoIterator,
    {
        HostFor::new(self.0.into_iter(), Location::caller())
    }
}

/// A `for` that is unrolled.
pub struct HostFor<I> {
    items: I,
    iterations: Iterations,
}

impl<I: Iterator> HostFor<I> {
    fn new(items: I, site: Site) -> Self {
        HostFor { items, iterations: Iterations::new(site) }
    }

    /// The next item, if there is one and the loop was not left.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<I::Item> {
        let item = if self.iterations.end() { self.items.next() } else { None };
        self.iterations.begin(item.is_some());
        item
    }
}

/// The iterations of a loop that is unrolled, whatever it runs over.
struct Iterations {
    scope: u32,
    first: bool,
    site: Site,
    /// How many there were, and how much was recorded before the first.
    count: u32,
    before: usize,
}

impl Iterations {
    fn new(site: Site) -> Iterations {
        let entered = with(|r| (r.enter(ScopeKind::HostLoop), r.recorded()));
        let (scope, before) = entered.unwrap_or_default();
        Iterations { scope, first: true, site, count: 0, before }
    }

    /// Ends an iteration, if there was one; whether the loop goes on.
    fn end(&mut self) -> bool {
        let first = std::mem::take(&mut self.first);
        first || with(|r| r.end_iteration(self.scope, self.site)).unwrap_or(true)
    }

    /// Begins the next iteration if there is one, and leaves the loop if there is none.
    fn begin(&mut self, is_there: bool) {
        with(|r| {
            if is_there {
                r.begin_iteration(self.scope, self.site);
            } else {
                r.leave_host_loop(self.scope, self.site);
            }
        });
        self.count += u32::from(is_there);
        if self.count == MANY_ITERATIONS + 1 {
            warn_of_unrolling(self.before, self.site);
        }
    }
}

/// Warns of a loop that has many iterations, unless it only computes on the host.
fn warn_of_unrolling(before: usize, site: Site) {
    with(|r| {
        if r.recorded() - before >= MANY_ITERATIONS as usize {
            let message = format!(
                "this loop is unrolled more than {MANY_ITERATIONS} times: its bounds are host numbers"
            );
            r.warn(site, message, "loop over `range(lo, hi)` to make it a loop on the device");
        }
    });
}

impl Drop for Iterations {
    /// Left by a jump of the host's: `?`, a panic, or an exit that has already left the scope.
    fn drop(&mut self) {
        with(|r| r.leave_host_loop(self.scope, self.site));
    }
}

/// A `for` on the device.
pub struct DeviceFor<T> {
    body: Body,
    elem: PhantomData<fn() -> T>,
}

/// The body of a `for` on the device, whatever the type of its variable.
struct Body {
    range: RangeEnds,
    state: ForState,
}

enum ForState {
    Before,
    Inside { scope: u32, bounds: Bounds, open: u32 },
    After,
}

impl<T: Elem> DeviceFor<T> {
    /// The loop variable the first time, then nothing: the body is traced once.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Val<T>> {
        self.body.next(T::SCALAR).map(Val::from_raw)
    }
}

impl Body {
    fn new(range: RangeEnds) -> Body {
        Body { range, state: ForState::Before }
    }

    /// The loop variable, of the type `elem`, the first time; then nothing.
    fn next(&mut self, elem: Scalar) -> Option<Raw> {
        match std::mem::replace(&mut self.state, ForState::After) {
            ForState::Before => self.enter(elem),
            ForState::Inside { scope, bounds, .. } => {
                with(|r| r.end_for(scope, bounds, self.range.site));
                None
            }
            ForState::After => None,
        }
    }

    fn enter(&mut self, elem: Scalar) -> Option<Raw> {
        // Poisoned bounds: an error was reported, and the body is skipped.
        let (bounds, site) = (self.range.bounds()?, self.range.site);
        // Loops count in 32 bits or more.
        let counted = if elem.is_small_int() { Scalar::I32 } else { elem };
        let bounds = match counted == elem {
            true => bounds,
            false => with(|r| bounds.map(|id| r.op(OpKind::Cast, &[id], Type::scalar(counted), site)))?,
        };
        let index = with(|r| r.value(Type::scalar(counted)))?;
        let (scope, open) = with(|r| (r.begin_for(), r.innermost()))?;
        let [lo, hi, step] = bounds;
        self.state = ForState::Inside {
            scope,
            bounds: Bounds { lo, hi, step, index, unroll: self.range.unroll },
            open,
        };
        let item = self.range.item(bounds, index, counted);
        if counted == elem {
            return Some(item);
        }
        let item = with(|r| {
            let item = r.read(item, site)?;
            Some(r.op(OpKind::Cast, &[item], Type::scalar(elem), site))
        });
        Some(Raw::of(item.flatten()))
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let ForState::Inside { scope, open, .. } = self.state {
            abandon(scope, open, "for", self.range.site);
        }
    }
}

/// Cleans up behind a device loop that the host jumped out of, by `?` or a panic.
fn abandon(scope: u32, open: u32, what: &str, site: Site) {
    with(|r| {
        let Some(at) = r.position(open) else { return };
        r.regions.truncate(at);
        r.leave(scope, true);
        if std::thread::panicking() {
            return;
        }
        let message = format!("control leaves this `{what}` on the device through `?`");
        r.error(site, message, "use `return`, `break` or `continue`");
    });
}

/// A `while`.
pub struct While {
    scope: u32,
    site: Site,
    open: u32,
    /// The condition, once it is known to be decided on the device.
    test: Option<(Region, Id)>,
    iterations: u32,
}

impl While {
    /// Begins a `while`, before its condition is traced.
    #[track_caller]
    #[allow(clippy::new_without_default)]
    pub fn begin() -> While {
        let site = Location::caller();
        let begun = with(|r| (r.enter(ScopeKind::UndecidedLoop), r.open(RegionKind::Undecided)));
        let (scope, open) = begun.unwrap_or_default();
        While { scope, site, open, test: None, iterations: 0 }
    }

    /// Takes the condition; whether the body is to be traced.
    pub fn test(&mut self, decision: Decision) -> bool {
        match decision {
            Decision::Host(value) => {
                with(|r| {
                    r.splice();
                    r.decide(self.scope, ScopeKind::HostLoop);
                });
                if !value {
                    with(|r| r.leave_host_loop(self.scope, self.site));
                }
                value
            }
            Decision::Device(raw) => {
                let raw = scalar_condition(raw, self.site);
                let body = with(|r| {
                    let cond = r.read(raw, self.site);
                    let test = r.close();
                    self.open = r.open(RegionKind::Device);
                    r.decide(self.scope, ScopeKind::DeviceLoop);
                    cond.map(|c| (test, c))
                });
                self.test = body.flatten();
                true
            }
        }
    }

    /// Ends an iteration; whether the condition is to be asked again.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> bool {
        self.iterations += 1;
        let kind = with(|r| r.kind_of(self.scope)).flatten();
        if kind != Some(ScopeKind::HostLoop) {
            let test = self.test.take();
            with(|r| {
                let known = test.is_some();
                r.end_while(self.scope, test, self.site);
                // A poisoned condition is not an endless loop.
                if !known {
                    r.set_dead(false);
                }
            });
            return false;
        }
        let goes_on = with(|r| r.end_iteration(self.scope, self.site)) == Some(true);
        if !goes_on || host_runs_away(self.iterations, self.site) {
            with(|r| r.leave_host_loop(self.scope, self.site));
            return false;
        }
        let opened = with(|r| {
            r.begin_iteration(self.scope, self.site);
            r.open(RegionKind::Undecided)
        });
        self.open = opened.unwrap_or(0);
        true
    }
}

impl Drop for While {
    fn drop(&mut self) {
        if with(|r| r.in_scope(self.scope)) == Some(true) {
            abandon(self.scope, self.open, "while", self.site);
            with(|r| r.leave_host_loop(self.scope, self.site));
        }
    }
}

fn host_runs_away(iterations: u32, site: Site) -> bool {
    if iterations < MAX_HOST_ITERATIONS {
        return false;
    }
    let message = format!("this loop did not end after {iterations} iterations on the host");
    error(site, message, "its condition must change, or depend on a device value");
    true
}

/// A `loop`.
pub struct Loop {
    scope: u32,
    open: u32,
    site: Site,
    can_exit: bool,
    iterations: u32,
}

impl Loop {
    /// Begins a `loop`; `can_exit` says whether anything in its body leaves it.
    #[track_caller]
    pub fn begin(can_exit: bool) -> Loop {
        let begun = with(|r| {
            let scope = r.enter(ScopeKind::UndecidedLoop);
            let open = r.open(RegionKind::Undecided);
            r.decide(scope, ScopeKind::UndecidedLoop);
            (scope, open)
        });
        let (scope, open) = begun.unwrap_or_default();
        Loop { scope, open, site: Location::caller(), can_exit, iterations: 0 }
    }

    /// Ends an iteration; whether there is another to trace.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> bool {
        self.iterations += 1;
        let left = with(|r| r.left_flag(self.scope).is_some()) == Some(true);
        if left || !self.can_exit {
            with(|r| r.end_while(self.scope, None, self.site));
            return false;
        }
        let runs_away = host_runs_away(self.iterations, self.site);
        let opened = with(|r| {
            r.splice();
            r.decide(self.scope, ScopeKind::HostLoop);
            if !r.end_iteration(self.scope, self.site) || runs_away {
                r.leave_host_loop(self.scope, self.site);
                return None;
            }
            let open = r.open(RegionKind::Undecided);
            r.decide(self.scope, ScopeKind::UndecidedLoop);
            Some(open)
        });
        self.open = opened.flatten().unwrap_or(0);
        opened.flatten().is_some()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if with(|r| r.in_scope(self.scope)) == Some(true) {
            abandon(self.scope, self.open, "loop", self.site);
            with(|r| r.leave_host_loop(self.scope, self.site));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace;
    use kiln_ir::Level;

    /// The warnings after a host loop of that many iterations, and its line.
    fn warnings(iterations: i64, body: fn(&crate::View<f32, 1>, i64)) -> (Vec<(u32, String)>, u32) {
        let (mut found, mut line) = (Vec::new(), 0);
        trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
            let x = p.view::<f32, 1>("x", Default::default());
            line = line!() + 1;
            let mut unrolled = LoopProbe(0..iterations).begin();
            while let Some(i) = unrolled.next() {
                body(&x, i);
            }
            let kept = with(|r| r.warnings().iter().map(|w| (w.line, w.message.clone())).collect());
            found = kept.unwrap_or_default();
        })
        .unwrap();
        (found, line)
    }

    #[test]
    fn long_unrolled_loops_warn() {
        let (found, line) = warnings(4097, |x, i| _ = x.get(i));
        let message = "this loop is unrolled more than 4096 times: its bounds are host numbers";
        assert_eq!(found, [(line, message.to_owned())]);
    }

    #[test]
    fn shorter_loops_and_those_of_the_host_alone_do_not() {
        assert_eq!(warnings(4096, |x, i| _ = x.get(i)).0, []);
        assert_eq!(warnings(9000, |_, i| _ = i + 1).0, []);
    }
}
