//! What the interpreter finds in wrong kernels of the explicit level: each is a fault that names
//! the line, and no hang.

use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Tensor};
use std::sync::{Mutex, PoisonError};

const BYTES: usize = 64 * 64 * 2;

/// What to leave out.
#[derive(Clone, Copy, Hash, PartialEq, KernelConst)]
#[kiln(crate = kiln_runtime)]
enum Fault {
    Nothing,
    WaitForCopy,
    WaitForRelease,
    ProxyFence,
    Barrier,
    StoreWait,
    Announcement,
    WaitForProduct,
}

/// Three tiles of a times the first of b, through a ring of two stages.
#[kernel(crate = kiln_runtime)]
fn wrong(a: &Tensor<bf16, 2>, b: &Tensor<bf16, 2>, c: &mut Tensor<bf16, 2>, fault: Fault) {
    let (left, right) = (shared_tiles::<bf16>(2, 64, 64), shared_tiles::<bf16>(2, 64, 64));
    let out = shared_tiles::<bf16>(1, 64, 64);
    let (full, empty) = (mbarriers(2, 1), mbarriers(2, 1));
    tasks()
        .task(4, 0, || {
            for step in range(0, 3) {
                let stage = step % 2;
                if fault != Fault::WaitForRelease {
                    empty.at(stage).wait(step / 2 - 1);
                }
                let bytes = if fault == Fault::Announcement { 2 * BYTES + 16 } else { 2 * BYTES };
                full.at(stage).expect(bytes);
                left.at(stage).load(a, (step * 64, 0), full.at(stage));
                right.at(stage).load(b, (0, 0), full.at(stage));
            }
        })
        .task(4, 0, || {
            for step in range(0, 3) {
                let stage = step % 2;
                if fault != Fault::WaitForCopy {
                    full.at(stage).wait(step / 2);
                }
                let product = wgmma(left.at(stage), right.at(stage), zeros::<f32>((64, 64)), false);
                if fault == Fault::WaitForProduct {
                    // Released while the tensor cores still read it.
                    empty.at(stage).arrive();
                }
                let sum = wgmma_wait(product, 0);
                if fault != Fault::WaitForProduct {
                    empty.at(stage).arrive();
                }
                out.at(0).put(sum.cast::<bf16>(), 0);
                if fault != Fault::ProxyFence {
                    proxy_fence();
                }
                if fault != Fault::Barrier {
                    task_barrier();
                }
                // SAFETY: one program stores every box once.
                unsafe { out.at(0).store(c, (step * 64, 0)) };
                if fault != Fault::StoreWait {
                    store_wait(0);
                }
            }
        })
        .run();
}

/// The fault of a kernel that leaves something out, or the empty text.
fn outcome(fault: Fault) -> String {
    // The tests share the device, and a fault is reported to the next caller that synchronizes.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let device = Device::open("interp").unwrap();
    let a = device.zeros::<bf16, 2>([192, 64]).unwrap();
    let b = device.zeros::<bf16, 2>([64, 64]).unwrap();
    let mut c = device.zeros::<bf16, 2>([192, 64]).unwrap();
    wrong(&a, &b, &mut c, fault).grid([1]).launch(&device).unwrap();
    device.synchronize().err().map_or_else(String::new, |error| error.to_string())
}

fn expect(fault: Fault, words: &str) {
    let text = outcome(fault);
    assert!(text.contains(words) && text.contains("explicit_order.rs:"), "{text}");
}

/// Two products in flight, of which one is used after a wait that leaves `pending`.
#[kernel(crate = kiln_runtime)]
fn used_in_flight(c: &mut Tensor<f32, 2>, second: bool, pending: usize) {
    let tiles = shared_tiles::<bf16>(1, 64, 64);
    let none = zeros::<f32>((64, 64));
    let x = wgmma(tiles.at(0), tiles.at(0), none, false);
    let y = wgmma_registers(pack_pairs::<bf16>(none), tiles.at(0), none, false);
    let done = wgmma_wait(if second { y } else { x }, pending);
    wgmma_wait(if second { x } else { y }, 0);
    c.tile((0, 0), (64, 64)).store(done);
}

#[test]
fn a_wait_for_the_first_product_leaves_the_second_in_flight() {
    let device = Device::open("interp").unwrap();
    let mut c = device.zeros::<f32, 2>([64, 64]).unwrap();
    for (second, pending, right) in [(false, 1, true), (false, 2, false), (true, 1, false), (true, 0, true)] {
        let kernel = used_in_flight(&mut c, second, pending).ir();
        let text = kernel.err().map_or_else(String::new, |error| error.to_string());
        let refused = text.contains("still in flight") && text.contains("explicit_order.rs:");
        assert!(if right { text.is_empty() } else { refused }, "{second} {pending}: {text}");
    }
}

#[test]
fn a_right_kernel_is_right() {
    assert_eq!(outcome(Fault::Nothing), "");
}

#[test]
fn a_tile_is_read_before_its_copy_is_done() {
    expect(Fault::WaitForCopy, "wait for the phase of its mbarrier first");
}

#[test]
fn a_tile_is_overwritten_before_it_is_released() {
    expect(Fault::WaitForRelease, "two writes of a shared tile have no order between them");
}

#[test]
fn a_tile_is_released_before_the_product_is_done() {
    expect(Fault::WaitForProduct, "while another task may still read it");
}

#[test]
fn a_written_tile_is_stored_without_a_proxy_fence() {
    expect(Fault::ProxyFence, "without a proxy fence and a barrier between");
}

#[test]
fn a_written_tile_is_stored_without_a_barrier() {
    expect(Fault::Barrier, "without a barrier between");
}

#[test]
fn a_tile_is_overwritten_while_it_is_stored() {
    expect(Fault::StoreWait, "while a copy or product that this task began may still read it");
}

#[test]
fn a_wait_for_bytes_that_never_come_ends() {
    expect(Fault::Announcement, "16 bytes are missing");
}
