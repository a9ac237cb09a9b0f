//! Indices, barriers, shuffles, votes, and time.

use super::register::{Class, Reg};
use super::votes;
use super::writer::{ALL_LANES, Writer};
use kiln_backend::Result;
use kiln_ir::{Axis, ClockUnit, OpData, Scope, ShuffleMode, VoteMode};

pub(super) fn axis(axis: Axis) -> &'static str {
    match axis {
        Axis::X => "x",
        Axis::Y => "y",
        Axis::Z => "z",
    }
}

pub(super) fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Block => "cta",
        Scope::Device => "gpu",
        Scope::System => "sys",
    }
}

impl Writer<'_> {
    /// A special register, widened to the 64 bits that indices have.
    pub(super) fn index(&mut self, op: &OpData, special: &str, a: Axis) {
        let to = self.define(op.results[0]);
        let narrow = self.reg(Class::B32);
        self.put(format_args!("mov.u32 {narrow}, %{special}.{}", axis(a)));
        self.put(format_args!("cvt.u64.u32 {to}, {narrow}"));
    }

    /// The mask of warp operations: all lanes, or those that exist where the last warp of the block
    /// is partial.
    pub(super) fn find_members(&mut self, threads: u32) {
        if !threads.is_multiple_of(32) {
            let members = self.reg(Class::B32);
            self.put(format_args!("activemask.b32 {members}"));
            self.members = members.to_string();
        }
    }

    /// A barrier of some lanes of the warp. Lanes that the block does not have are not named: none
    /// of them ever ends.
    pub(super) fn warp_barrier(&mut self, op: &OpData) -> Result<()> {
        let members = self.members.clone();
        let named = self.kernel.as_const(op.lanes()).map(|literal| literal.bits() as u32);
        if named == Some(u32::MAX) {
            self.put(format_args!("bar.warp.sync {members}"));
            return Ok(());
        }
        let mut lanes = self.get(op.lanes())?;
        if members != ALL_LANES {
            let there = self.reg(Class::B32);
            self.put(format_args!("and.b32 {there}, {lanes}, {members}"));
            lanes = there;
        }
        self.put(format_args!("bar.warp.sync {lanes}"));
        Ok(())
    }

    pub(super) fn fence(&mut self, s: Scope) {
        self.put(format_args!("fence.acq_rel.{}", scope(s)));
    }

    pub(super) fn shuffle(&mut self, op: &OpData, mode: ShuffleMode) -> Result<()> {
        let (x, by) = (self.get(op.input())?, self.get(op.lane())?);
        let to = self.define(op.results[0]);
        let by = match by.class {
            Class::B64 => {
                let narrow = self.reg(Class::B32);
                self.put(format_args!("cvt.u32.u64 {narrow}, {by}"));
                narrow
            }
            _ => by,
        };
        // A warp that is not full may name lanes that the block does not have: those are checked
        // first.
        let (mode, by) = match self.members == ALL_LANES {
            true => (mode, by),
            false => (ShuffleMode::Index, self.lane_that_exists(mode, by)),
        };
        let (name, clamp) = match mode {
            ShuffleMode::Index => ("idx", "0x1f"),
            ShuffleMode::Up => ("up", "0"),
            ShuffleMode::Down => ("down", "0x1f"),
            ShuffleMode::Xor => ("bfly", "0x1f"),
        };
        match x.class {
            Class::B32 => self.shuffle_word(name, clamp, to, x, by),
            Class::B64 => {
                let [lo, hi, lo2, hi2] = [(); 4].map(|()| self.reg(Class::B32));
                self.put(format_args!("mov.b64 {{{lo}, {hi}}}, {x}"));
                self.shuffle_word(name, clamp, lo2, lo, by);
                self.shuffle_word(name, clamp, hi2, hi, by);
                self.put(format_args!("mov.b64 {to}, {{{lo2}, {hi2}}}"));
            }
            Class::B16 => {
                let (wide, got) = (self.reg(Class::B32), self.reg(Class::B32));
                self.put(format_args!("cvt.u32.u16 {wide}, {x}"));
                self.shuffle_word(name, clamp, got, wide, by);
                self.put(format_args!("cvt.u16.u32 {to}, {got}"));
            }
            Class::Pred => {
                let (wide, got) = (self.reg(Class::B32), self.reg(Class::B32));
                self.put(format_args!("selp.b32 {wide}, 1, 0, {x}"));
                self.shuffle_word(name, clamp, got, wide, by);
                self.put(format_args!("setp.ne.u32 {to}, {got}, 0"));
            }
        }
        Ok(())
    }

    /// The lane that a shuffle by `by` reads, or this one where the block does not have that.
    fn lane_that_exists(&mut self, mode: ShuffleMode, by: Reg) -> Reg {
        let [lane, amount, source, bit, found] = [(); 5].map(|()| self.reg(Class::B32));
        let exists = self.reg(Class::Pred);
        let members = self.members.clone();
        self.put(format_args!("mov.u32 {lane}, %laneid"));
        self.put(format_args!("and.b32 {amount}, {by}, 31"));
        match mode {
            ShuffleMode::Index => self.put(format_args!("mov.u32 {source}, {amount}")),
            ShuffleMode::Up => self.put(format_args!("sub.u32 {source}, {lane}, {amount}")),
            ShuffleMode::Down => self.put(format_args!("add.u32 {source}, {lane}, {amount}")),
            ShuffleMode::Xor => self.put(format_args!("xor.b32 {source}, {lane}, {amount}")),
        }
        // A shift by more than 31 gives 0: lanes below 0 and above 31 are no members.
        self.put(format_args!("shr.u32 {bit}, {members}, {source}"));
        self.put(format_args!("and.b32 {bit}, {bit}, 1"));
        self.put(format_args!("setp.ne.u32 {exists}, {bit}, 0"));
        self.put(format_args!("selp.b32 {found}, {source}, {lane}, {exists}"));
        found
    }

    fn shuffle_word(&mut self, name: &str, clamp: &str, to: Reg, x: Reg, by: Reg) {
        let members = self.members.clone();
        self.put(format_args!("shfl.sync.{name}.b32 {to}, {x}, {by}, {clamp}, {members}"));
    }

    pub(super) fn clock(&mut self, op: &OpData, unit: ClockUnit) {
        let to = self.define(op.results[0]);
        let register = match unit {
            ClockUnit::Nanos => "globaltimer",
            ClockUnit::Cycles => "clock64",
        };
        self.put(format_args!("mov.u64 {to}, %{register}"));
    }

    pub(super) fn sleep(&mut self, op: &OpData) -> Result<()> {
        let nanoseconds = self.get(op.duration())?;
        self.put(format_args!("nanosleep.u32 {nanoseconds}"));
        Ok(())
    }

    /// NVIDIA's assembler (CUDA 12.8 to 13.1) takes `vote.sync.all` and `any` for something that
    /// it can do again where the answer is used behind a call (a division of 64 bits is one), also
    /// where only some lanes are, and these then wait for the others for ever. So an answer that is
    /// not used at once is made of a mask of 32 bits, which it keeps.
    pub(super) fn vote(&mut self, op: &OpData, mode: VoteMode) -> Result<()> {
        let x = self.get(op.condition())?;
        let to = self.define(op.results[0]);
        let (name, comparison) = match mode {
            VoteMode::Ballot => {
                self.ballot(to, x);
                return Ok(());
            }
            VoteMode::All => ("all", "eq"),
            VoteMode::Any => ("any", "ne"),
        };
        if votes::branches_alone(self.kernel, op.results[0]) {
            let members = self.members.clone();
            self.put(format_args!("vote.sync.{name}.pred {to}, {x}, {members}"));
            return Ok(());
        }
        let voted = if mode == VoteMode::All { self.reg(Class::Pred) } else { x };
        if mode == VoteMode::All {
            self.put(format_args!("not.pred {voted}, {x}"));
        }
        let mask = self.reg(Class::B32);
        self.ballot(mask, voted);
        self.put(format_args!("setp.{comparison}.u32 {to}, {mask}, 0"));
        Ok(())
    }

    /// The mask of the lanes in which a condition holds.
    fn ballot(&mut self, to: Reg, mut x: Reg) {
        if let Some(no_lane) = self.no_lane {
            let own = self.reg(Class::Pred);
            self.put(format_args!("xor.pred {own}, {x}, {no_lane}"));
            x = own;
        }
        let members = self.members.clone();
        self.put(format_args!("vote.sync.ballot.b32 {to}, {x}, {members}"));
    }
}
