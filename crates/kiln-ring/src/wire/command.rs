//! What the host commands a worker to do: one command at a time, in the worker's quad of the inbox.

/// A command: `[operation | endpoint << 8, argument, argument, number]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Operation {
    /// Sets the endpoint's gate to the first argument.
    Gate = 1,
    /// Takes up the endpoint's record as the host wrote it to the arena.
    Load = 2,
    /// Drops the requests below a position, whose low half is the first argument.
    Skip = 3,
    /// Writes all records to the arena and leaves.
    Leave = 4,
    /// Hands the endpoint's messages to another handler, whose number is the first argument.
    Kind = 5,
    /// Nothing, but for what every command does: when it is acknowledged, handlers that ran before
    /// are over, and what the host wrote to the arena before is seen.
    Settle = 6,
}

impl Operation {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Gate => "change the gate",
            Operation::Load => "load an endpoint",
            Operation::Skip => "skip",
            Operation::Leave => "leave",
            Operation::Kind => "change the handler",
            Operation::Settle => "settle",
        }
    }

    /// The first word of a command.
    pub(crate) fn word(self, endpoint: usize) -> u32 {
        self as u32 | (endpoint as u32) << 8
    }
}
