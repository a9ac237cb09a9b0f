//! Kiln as a library of a Python program, which shares device memory with PyTorch: `exchange.py`
//! calls these functions through `ctypes`. It also measures copies from and to pinned memory.
//!
//! ```text
//! cargo build --release -p kiln-runtime --example exchange
//! python3 crates/kiln-runtime/examples/exchange.py target/release/examples/libexchange.so
//! ```

use kiln_lang::prelude::*;
use kiln_runtime::{Device, Result, Stream, Tensor};
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

/// y = 2 x + 1.
#[kernel(crate = kiln_runtime)]
fn affine(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let at = program_id(0) * 1024;
    y.tile(at, 1024).store(x.tile(at, 1024).load(0.0) * 2.0 + 1.0);
}

/// Takes its time, on few multiprocessors.
#[kernel(crate = kiln_runtime)]
fn busy(x: &mut Tensor<f32, 1>, rounds: Val<i32>) {
    let at = program_id(0) * 256;
    let mut value = x.tile(at, 256).load(0.0);
    let mut round: Val<i32> = 0;
    while round.lt(rounds) {
        value = value * 0.999 + 0.001;
        round = round + 1;
    }
    x.tile(at, 256).store(value);
}

/// Adds 1 and 3 to the words of a pair in every thread, by a compare-and-exchange of 128 bits, and
/// counts the attempts.
#[kernel(crate = kiln_runtime)]
fn count(address: Val<u64>, attempts: &mut Tensor<u32, 1>) {
    let text = ".reg .b128 old, new, found; .reg .b64 low, high, next, over; .reg .pred same;
        mov.u32 %0, 0; mov.b64 low, 0; mov.b64 high, 0;
        again: add.u32 %0, %0, 1;
        add.u64 next, low, 1; add.u64 over, high, 3;
        mov.b128 old, {low, high}; mov.b128 new, {next, over};
        atom.acq_rel.gpu.global.cas.b128 found, [%1], old, new;
        mov.b128 {next, over}, found;
        setp.eq.b64 same, low, next; setp.eq.and.b64 same, high, over, same;
        mov.b64 low, next; mov.b64 high, over;
        @!same bra again;";
    // SAFETY: the address is that of a pair; it writes its own registers.
    attempts.set(thread_index(), unsafe { ptx(text, address) });
}

/// How often memory was given back to PyTorch.
static RELEASED: AtomicU64 = AtomicU64::new(0);

/// What the program holds.
pub struct Session {
    device: Device,
    stream: Stream,
    made: Option<Tensor<f32, 1>>,
}

/// 0, or 1 after printing the error.
fn status(result: Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            println!("error: {error}");
            1
        }
    }
}

/// Opens a device; null if that fails.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exchange_open(name: *const c_char) -> *mut Session {
    // SAFETY: as the caller promises.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let open = || {
        let device = Device::open(&name)?;
        Ok(Session { stream: device.stream()?, device, made: None })
    };
    match open() {
        Ok(session) => Box::into_raw(Box::new(session)),
        Err(error) => {
            status(Err(error));
            std::ptr::null_mut()
        }
    }
}

/// The handle of the session's stream; 0 where there is none.
///
/// # Safety
/// The session is one of [`exchange_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exchange_stream(session: *mut Session) -> u64 {
    // SAFETY: as the caller promises.
    let session = unsafe { &*session };
    session.stream.raw_handle().ok().flatten().unwrap_or(0)
}

/// y = 2 x + 1 over memory of the caller, which is given back before this returns.
///
/// # Safety
/// The session is one of [`exchange_open`]; `x` and `y` have `len` elements of their own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exchange_affine(session: *mut Session, x: u64, y: u64, len: usize) -> i32 {
    // SAFETY: as the caller promises.
    let session = unsafe { &*session };
    let release = || Some(Box::new(|| _ = RELEASED.fetch_add(1, SeqCst)) as Box<dyn FnOnce() + Send>);
    let run = || {
        // SAFETY: as the caller promises; both are gone when this returns.
        let [x, mut y] = unsafe {
            [
                Tensor::from_device_ptr(&session.device, x, [len], release())?,
                Tensor::from_device_ptr(&session.device, y, [len], release())?,
            ]
        };
        affine(&x, &mut y).on(&session.stream).launch(&session.device)
    };
    status(run())
}

/// How often memory was given back.
#[unsafe(no_mangle)]
pub extern "C" fn exchange_released() -> u64 {
    RELEASED.load(SeqCst)
}

/// Makes a tensor of Kiln's of 0, 1, 2, … and gives its address, for work in the session's stream
/// that may write it; 0 if that fails.
///
/// # Safety
/// The session is one of [`exchange_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exchange_make(session: *mut Session, len: usize) -> u64 {
    // SAFETY: as the caller promises.
    let session = unsafe { &mut *session };
    let mut make = || {
        let data: Vec<f32> = (0..len).map(|i| i as f32).collect();
        let mut made = session.device.tensor(&data, [len])?;
        let address = made.as_device_mut_ptr_on(&session.stream)?;
        session.made = Some(made);
        Ok(address)
    };
    make().unwrap_or_else(|error| {
        status(Err(error));
        0
    })
}

/// The elements of that tensor, after the work in the session's stream.
///
/// # Safety
/// The session is one of [`exchange_open`]; `into` has room for the elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exchange_read(session: *mut Session, into: *mut f32) -> i32 {
    // SAFETY: as the caller promises.
    let session = unsafe { &*session };
    let Some(made) = &session.made else { return 1 };
    status(made.to_vec().map(|elements| {
        // SAFETY: as the caller promises.
        unsafe { into.copy_from_nonoverlapping(elements.as_ptr(), elements.len()) };
    }))
}

/// Counts to `256 * blocks` by atomics of 128 bits at the address of a tensor.
///
/// # Safety
/// The session is one of [`exchange_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exchange_count(session: *mut Session, blocks: usize) -> i32 {
    // SAFETY: as the caller promises.
    let Session { device, stream, .. } = unsafe { &*session };
    let run = || {
        let mut pair = device.zeros::<u64, 1>([2])?;
        let mut attempts = device.zeros([256 * blocks])?;
        let address = pair.as_device_mut_ptr_on(stream)?;
        count(address, &mut attempts).grid([blocks]).block([256]).on(stream).launch(device)?;
        let (pair, attempts) = (pair.to_vec()?, attempts.to_vec()?);
        let right = pair == [256 * blocks as u64, 3 * 256 * blocks as u64];
        let sum: u64 = attempts.iter().map(|&n| u64::from(n)).sum();
        let what = if right { "ok" } else { "WRONG" };
        println!("{what}: 128-bit atomics counted to {pair:?} in {sum} attempts");
        Ok(())
    };
    status(run())
}

/// The least time of some runs, in seconds.
fn least(runs: usize, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    run()?;
    let mut least = f64::INFINITY;
    for _ in 0..runs {
        let start = Instant::now();
        run()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}

/// Prints the speed of copies from and to a `Vec` and pinned memory, and the times of a copy and a
/// kernel, apart and together.
///
/// # Safety
/// The session is one of [`exchange_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exchange_measure(session: *mut Session, bytes: usize) -> i32 {
    // SAFETY: as the caller promises.
    let session = unsafe { &*session };
    status(measure(&session.device, &session.stream, bytes / 4))
}

fn measure(device: &Device, copies: &Stream, len: usize) -> Result<()> {
    let rate = |seconds: f64| (len * 4) as f64 / seconds / 1e9;
    let data: Vec<f32> = (0..len).map(|i| (i % 1000) as f32).collect();
    let mut x = device.uninit::<f32, 1>([len])?;
    let up = least(7, || {
        x.write(&data)?;
        device.synchronize()
    })?;
    let down = least(7, || x.to_vec().map(drop))?;
    println!("pageable: to the device {:.1} GB/s, from it {:.1} GB/s", rate(up), rate(down));

    let allocating = Instant::now();
    let (mut from, mut to) = (device.pinned::<f32, 1>([len])?, device.pinned::<f32, 1>([len])?);
    println!("two pinned tensors were allocated in {:.0} ms", allocating.elapsed().as_secs_f64() * 1e3);
    from.as_mut_slice()?.copy_from_slice(&data);
    let up = least(7, || {
        from.copy_to(&mut x, copies)?;
        copies.synchronize()
    })?;
    let down = least(7, || {
        to.copy_from(&x, copies)?;
        copies.synchronize()
    })?;
    println!("pinned: to the device {:.1} GB/s, from it {:.1} GB/s", rate(up), rate(down));
    println!("the elements are {}", if to.as_slice()? == data { "right" } else { "WRONG" });

    let (kernels, mut work) = (device.stream()?, device.zeros::<f32, 1>([256 * 64])?);
    // As long as a copy, about.
    let mut rounds = 1 << 16;
    let mut kernel = |rounds: i32| busy(&mut work, rounds).on(&kernels).launch(device);
    let time = least(3, || {
        kernel(rounds)?;
        kernels.synchronize()
    })?;
    rounds = (f64::from(rounds) * up / time) as i32;
    let alone = least(7, || {
        kernel(rounds)?;
        kernels.synchronize()
    })?;
    let mut returned = f64::INFINITY;
    for (what, down) in [("to", false), ("from", true)] {
        let both = least(7, || {
            kernel(rounds)?;
            let start = Instant::now();
            match down {
                false => from.copy_to(&mut x, copies)?,
                true => to.copy_from(&x, copies)?,
            }
            returned = returned.min(start.elapsed().as_secs_f64());
            copies.synchronize()?;
            kernels.synchronize()
        })?;
        println!("a kernel alone {:.2} ms; with a copy {what} the device {:.2} ms", alone * 1e3, both * 1e3);
    }
    println!("the call of a copy returns after {:.1} us", returned * 1e6);
    Ok(())
}
