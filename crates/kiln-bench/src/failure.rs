//! Why a measurement failed.

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Kiln refused or failed.
    #[error(transparent)]
    Kiln(#[from] kiln_runtime::Error),
    /// A runtime of actors refused or failed.
    #[error(transparent)]
    Ring(Box<kiln_ring::RingError>),
    /// A message was not sent.
    #[error(transparent)]
    Send(#[from] kiln_ring::SendError),
    /// Not all of many messages were sent.
    #[error(transparent)]
    SendMany(#[from] kiln_ring::SendManyError),
    /// No reply came.
    #[error(transparent)]
    Receive(#[from] kiln_ring::RecvError),
    /// A request had no reply.
    #[error(transparent)]
    Ask(#[from] kiln_ring::AskError),
    /// A device computed something wrong.
    #[error("{0}")]
    Wrong(String),
    /// Who is told of each row does not take it.
    #[error("cannot write the output: {0}")]
    Output(std::io::Error),
    /// The system was asked for something that it does not give.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

impl From<kiln_backend::Error> for Failure {
    fn from(error: kiln_backend::Error) -> Failure {
        Failure::Kiln(error.into())
    }
}

impl From<kiln_ring::RingError> for Failure {
    fn from(error: kiln_ring::RingError) -> Failure {
        Failure::Ring(Box::new(error))
    }
}
