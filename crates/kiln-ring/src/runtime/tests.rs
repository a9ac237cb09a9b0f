//! What only shows from within, or between devices: senders that stop half-way, devices that do not reach each other.

use super::{CheckpointError, RingConfig, RingError, RingRuntime, RuntimeConfig};
use crate::channel::RecvError;
use crate::handler::RingCtx;
use crate::ring_kernel;
use kiln_runtime::Device;
use std::time::Duration;

#[ring_kernel(crate = crate)]
fn sum_of(_ctx: &RingCtx, total: &mut u32, x: [u32; 7]) -> u32 {
    *total += x[0] + x[6];
    *total
}

/// The message is never seen, nor is what was sent after it, and a checkpoint says so instead of going without. Once it is whole, all are handled in their order.
#[test]
fn a_message_that_was_not_finished_is_not_there() {
    let config = RuntimeConfig { acknowledge_within: Duration::from_millis(200), ..RuntimeConfig::default() };
    let rt = RingRuntime::with(&Device::open("interp").unwrap(), config).unwrap();
    let actor = rt.launch(sum_of, RingConfig::default().state(0)).unwrap();
    actor.send([1; 7]).unwrap();
    let queue = &actor.body.mailbox.lowest().queue;
    let torn = queue.reserve(1).unwrap().start;
    actor.send([100; 7]).unwrap();
    let refused = actor.checkpoint().unwrap_err();
    let unfinished =
        matches!(refused, RingError::Checkpoint(CheckpointError::Unfinished { position: 1, .. }));
    assert!(unfinished, "{refused}");
    actor.activate().unwrap();
    assert_eq!(actor.recv().unwrap(), 2);
    let next = actor.recv_timeout(Duration::from_millis(20));
    assert!(matches!(next, Err(RecvError::TimedOut { .. })), "{next:?}");
    queue.write(torn, &[10, 10, 10, 10, 10, 10, 10, 0, 0]);
    queue.publish();
    assert_eq!((actor.recv().unwrap(), actor.recv().unwrap()), (22, 222));
}

/// A device that reaches another one's memory is one of two GPUs, or the same one.
#[test]
fn devices_that_do_not_reach_each_other_are_not_linked() {
    let runtime = |device: &str| RingRuntime::new(&Device::open(device).unwrap()).unwrap();
    let (interp, cpu) = (runtime("interp"), runtime("cpu"));
    let actor = cpu.launch(sum_of, RingConfig::default().state(0)).unwrap();
    let refused = actor.inlet_from(&interp, 4);
    let named = |from: &str, to: &str| (from, to) == ("interp", "cpu");
    assert!(matches!(&refused, Err(RingError::OutOfReach { from, to }) if named(from, to)), "{refused:?}");
    assert!(actor.inlet_from(&cpu, 4).is_ok());
    let other = runtime("interp").launch(sum_of, RingConfig::default().state(0)).unwrap();
    assert!(matches!(other.inlet_from(&interp, 4), Err(RingError::OutOfReach { .. })));
}
