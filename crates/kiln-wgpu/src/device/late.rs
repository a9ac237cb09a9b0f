//! What error scopes catch, which a browser says later than the call that failed.

use kiln_backend::{Error, Result};
use std::future::Future;

/// Why a call of wgpu failed that an error scope was around.
pub(crate) enum Refusal {
    OutOfMemory,
    Refused(String),
}

impl Refusal {
    /// The first of the errors of some scopes.
    pub(crate) fn of(errors: impl IntoIterator<Item = Option<wgpu::Error>>) -> Option<Refusal> {
        errors.into_iter().flatten().next().map(|error| match error {
            wgpu::Error::OutOfMemory { .. } => Refusal::OutOfMemory,
            error => Refusal::Refused(error.to_string()),
        })
    }
}

/// The error scopes of which it is not known yet what they have caught. In a browser alone:
/// elsewhere that is known at once.
#[derive(Default)]
pub(crate) struct LateErrors {
    #[cfg(target_family = "wasm")]
    open: std::sync::Mutex<Vec<std::pin::Pin<Box<dyn Future<Output = Option<Error>> + Send>>>>,
}

#[cfg(not(target_family = "wasm"))]
impl LateErrors {
    /// The first error that some scopes have caught.
    pub(crate) fn found(
        &self,
        scopes: [impl Future<Output = Option<wgpu::Error>>; 3],
        explain: impl FnOnce(Refusal) -> Error,
    ) -> Result<()> {
        let refusal = Refusal::of(scopes.map(|scope| pollster::block_on(scope)));
        refusal.map_or(Ok(()), |refusal| Err(explain(refusal)))
    }

    /// The first error of the calls so far.
    pub(crate) async fn first(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(target_family = "wasm")]
impl LateErrors {
    /// Keeps some scopes for [`first`](Self::first) to ask.
    pub(crate) fn found(
        &self,
        scopes: [impl Future<Output = Option<wgpu::Error>> + Send + 'static; 3],
        explain: impl FnOnce(Refusal) -> Error + Send + 'static,
    ) -> Result<()> {
        self.open().push(Box::pin(async move {
            let mut errors = Vec::new();
            for scope in scopes {
                errors.push(scope.await);
            }
            Refusal::of(errors).map(explain)
        }));
        Ok(())
    }

    /// The first error of the calls so far that no call has reported.
    pub(crate) async fn first(&self) -> Result<()> {
        let open = std::mem::take(&mut *self.open());
        let mut first = None;
        for scopes in open {
            let error = scopes.await;
            first = first.or(error);
        }
        first.map_or(Ok(()), Err)
    }

    fn open(
        &self,
    ) -> std::sync::MutexGuard<'_, Vec<std::pin::Pin<Box<dyn Future<Output = Option<Error>> + Send>>>> {
        // Pushed and taken whole.
        self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
