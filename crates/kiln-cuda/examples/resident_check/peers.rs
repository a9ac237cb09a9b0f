//! Access of one GPU's kernels to another GPU's memory, where there are two.

use crate::backend::other;
use crate::rig::{Outcome, ensure, timed};
use kiln_backend::{Backend, BufferBinding, Error, LaunchArguments, Peers, StreamId};
use kiln_cuda::{Cuda, device_count};
use kiln_ir::parse;

const STREAM: StreamId = StreamId(0);
const BYTES: usize = 1024;

pub fn check() -> Outcome {
    if device_count()? < 2 {
        println!("\nskipped: peer access (there is one GPU)");
        return Ok(());
    }
    println!("\npeer access:");
    let (here, there) = (Cuda::open(0)?, Cuda::open(1)?);
    let before = there.allocate(BYTES, STREAM)?;
    match timed(|| here.enable_peer_access(there.properties())) {
        Ok(((), took)) => println!("  enabled in {took:.1?}"),
        Err(Error::Unavailable { reason, .. }) => {
            println!("  skipped: {reason}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    }
    here.enable_peer_access(there.properties())?;
    here.enable_peer_access(here.properties())?;
    // Memory from before, and memory from after.
    let after = there.allocate(BYTES, STREAM)?;
    let program = here.compile(&parse(&other(41)).map_err(|e| e.to_string())?)?.program;
    for memory in [before, after] {
        let mut bytes = [0; BYTES];
        // SAFETY: 256 words of the other GPU, which wait for the fill, are waited for in turn, and
        // are freed after their last use.
        unsafe {
            there.fill(memory, 1, BYTES, STREAM)?;
            there.synchronize(STREAM)?;
            let arguments = LaunchArguments::new().view(BufferBinding::write(memory), &[256]);
            here.launch(&*program, arguments.launch([1, 1, 1], STREAM))?;
            here.synchronize(STREAM)?;
            there.download(&mut bytes, memory, STREAM)?;
            there.free(memory, BYTES, STREAM);
        }
        let right = bytes.as_chunks::<4>().0.iter().all(|word| u32::from_le_bytes(*word) == 0x0101_0101 + 41);
        ensure(right, "a kernel of one GPU adds in the memory of the other")?;
    }
    println!("  passed: peer access");
    Ok(())
}
