//! Opening an adapter as a device.

use super::backend::Wgpu;
use super::gpu::Gpu;
use super::probe::{features_of_floats, keeps_subnormals, rounds_doubles};
use super::probe_extrema::has_exact_extrema;
use super::waiting::wait_for;
use kiln_backend::{Error, Result};

impl Wgpu {
    /// Opens an adapter: `wgpu` is the best one, `wgpu:N` the one of that number in
    /// [`adapters`](crate::adapters), `wgpu:vulkan`, `wgpu:metal`, `wgpu:dx12` and `wgpu:webgpu`
    /// the best one of an API.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is no such adapter, with those that are there;
    /// [`Error::CannotWait`] in a browser.
    pub fn open(name: &str) -> Result<Wgpu> {
        wait_for(Wgpu::open_later(name)).unwrap_or_else(|| {
            let (call, instead) = ("Device::open", "Device::open_async");
            Err(Error::CannotWait { device: name.to_owned(), call, instead })
        })
    }

    /// [`open`](Self::open), to be awaited.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is no such adapter, with those that are there.
    pub async fn open_later(name: &str) -> Result<Wgpu> {
        let mut opened = Wgpu::of(Gpu::open(name).await?);
        opened.gpu.check()?;
        // Kernels of f64 are refused where they would be wrong.
        let doubles = rounds_doubles(&opened).await?;
        opened.gpu.features.float64 &= doubles;
        let subnormals = keeps_subnormals(&opened).await?;
        opened.properties.capabilities.subnormals = subnormals;
        opened.gpu.features = features_of_floats(&opened, subnormals).await?;
        opened.gpu.features.exact_extrema = true;
        opened.gpu.features.exact_extrema = has_exact_extrema(&opened, subnormals).await?;
        Ok(opened)
    }
}
