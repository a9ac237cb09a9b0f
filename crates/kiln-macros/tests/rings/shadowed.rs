//! A handler's name cannot be bound again: `launch` gives the actor another name.

use kiln_ring::{RingCtx, RingRuntime, ring_kernel};

#[ring_kernel(crate = kiln_ring)]
fn fir(ctx: &RingCtx, x: u32) -> u32 {
    x
}

fn start(runtime: &RingRuntime) -> kiln_ring::Result<()> {
    let fir = runtime.launch(fir, Default::default())?;
    fir.activate()?;
    println!("{:?}", fir.ask(7));
    Ok(())
}

fn main() {}
