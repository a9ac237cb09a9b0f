//! Words that the host and running kernels share.

use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, Mapped, Tensor};
use std::thread;

/// Answers numbers until a zero comes: the n-th request is word n of `inbox`, above a mark.
#[kernel(crate = kiln_runtime)]
fn serve(inbox: &Mapped<u64>, outbox: &Mapped<f32>, sums: &mut Tensor<f32, 1>) {
    if thread_id(0) == 0 {
        let mut at: Val<i64> = 0;
        let mut goes_on: Val<bool> = true;
        while goes_on {
            let word = inbox.get_ordered(at, Order::Relaxed, Scope::System);
            if word != 0 {
                let x = (word >> 32).cast::<f32>();
                goes_on = x > 0.0;
                let sum = sums.get(0) + x;
                // SAFETY: one thread of the launch stores there, and the host reads it atomically.
                unsafe {
                    sums.write(0, sum);
                    outbox.set_ordered(at, sum + 1.0, Order::Release, Scope::System);
                }
                at += 1;
            }
        }
    }
}

#[kernel(crate = kiln_runtime)]
fn twice(_a: &Mapped<u32>, b: &Mapped<u32>) {
    // SAFETY: the only access.
    unsafe { b.write(0, 1) };
}

#[test]
fn a_kernel_answers_while_it_runs() {
    for id in ["cpu", "interp", "interp:fast"] {
        let device = Device::open(id).unwrap();
        let (inbox, outbox) = (device.mapped::<u64>(9).unwrap(), device.mapped::<f32>(9).unwrap());
        let mut sums = device.zeros([1]).unwrap();
        thread::scope(|scope| {
            let launch = serve(&inbox, &outbox, &mut sums).grid([1]).block([32]);
            let kernel = scope.spawn(|| launch.launch(&device));
            let mut expected = 0.0;
            for (i, x) in [3u64, 5, 1, 0].into_iter().enumerate() {
                inbox.store(i, x << 32 | 1).unwrap();
                expected += x as f32;
                while outbox.load(i).unwrap() == 0.0 {
                    assert!(!kernel.is_finished() || outbox.load(i).unwrap() != 0.0, "{id} has ended");
                    thread::yield_now();
                }
                assert_eq!(outbox.load(i).unwrap(), expected + 1.0, "request {i} on {id}");
            }
            kernel.join().unwrap().unwrap();
        });
        assert_eq!(sums.to_vec().unwrap(), [9.0], "{id}");
    }
}

#[test]
fn words_keep_their_bits_and_others_are_refused() {
    let device = Device::open("interp").unwrap();
    let numbers = device.mapped::<f64>(3).unwrap();
    let signed = device.mapped::<i32>(2).unwrap();
    numbers.store(2, -0.1).unwrap();
    signed.store(1, i32::MIN).unwrap();
    assert_eq!([0, 1, 2].map(|i| numbers.load(i).unwrap()), [0.0, 0.0, -0.1]);
    assert_eq!([0, 1].map(|i| signed.load(i).unwrap()), [0, i32::MIN]);
    let error = numbers.store(3, 1.0).unwrap_err();
    assert_eq!(error.to_string(), "there is no word 3, for a tensor of shape [3]");
    assert!(matches!(device.mapped::<u32>(0).unwrap().load(0), Err(Error::Range { .. })));
    assert_eq!(format!("{signed:?}"), r#"Mapped { device: "interp", len: 2, .. }"#);
}

#[test]
fn the_same_words_are_no_two_arguments() {
    let device = Device::open("interp").unwrap();
    let words = device.mapped::<u32>(1).unwrap();
    let error = twice(&words, &words).grid([1]).block([1]).launch(&device).unwrap_err();
    assert!(matches!(error, Error::Overlap { .. }), "{error}");
    let other = Device::open("cpu").unwrap().mapped::<u32>(1).unwrap();
    let error = twice(&words, &other).grid([1]).block([1]).launch(&device).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { .. }), "{error}");
}

#[test]
fn memory_that_is_used_again_is_zero() {
    let device = Device::open("cpu").unwrap();
    for len in [1, 100_000] {
        let words = device.mapped::<u32>(len).unwrap();
        words.store(len - 1, 7).unwrap();
        drop(words);
        assert_eq!(device.mapped::<u32>(len).unwrap().load(len - 1).unwrap(), 0, "zeros again");
    }
}
