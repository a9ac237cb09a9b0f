//! The emitter's state of the explicit level of a kernel.

use super::register::Reg;
use super::team::Team;
use super::tensor_map::TensorMaps;
use kiln_ir::{Op, Value};
use rustc_hash::FxHashMap;

/// What a kernel of the explicit level needs besides its text.
#[derive(Default)]
pub(super) struct ExplicitState {
    pub(super) used: bool,
    /// Some task has a register budget.
    pub(super) budgets: bool,
    /// See [`Module::whole_program`](super::Module::whole_program).
    pub(super) whole_program: bool,
    pub(super) maps: TensorMaps,
    /// The operation of the body before which the mbarriers must be there.
    pub(super) meet_before: Option<Op>,
    pub(super) team: Option<Team>,
    pub(super) always: Option<Reg>,
    /// Where shared memory begins.
    pub(super) shared: Option<Reg>,
    /// The arrivals of a phase that the hardware counts, by the value of the mbarriers.
    pub(super) arrivals: FxHashMap<Value, u32>,
    /// By value: the first of the values that share a register with it.
    pub(super) same: FxHashMap<Value, Value>,
    /// The register of values that share one, by their representative.
    pub(super) registers: FxHashMap<Value, Reg>,
}
