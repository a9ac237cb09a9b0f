//! What the device finds out, such as an index outside of its axis, is the error of the arrays that
//! were made by the run that failed, at the line that was wrong.

use kiln_array::nn::{Embedding, Key};
use kiln_array::{
    Array, Convolution, Error, MatrixNorm, Scalar, concatenate, einsum, eval, stack, value_and_grad,
};
use kiln_runtime::{Device, Tensor};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Devices that no other test has: on a GPU too a fault is not found before a wait.
fn devices() -> Vec<Device> {
    let names = ["cpu", "interp"].into_iter().chain(cfg!(feature = "wgpu").then_some("wgpu"));
    let open = |name: &str| match Device::open_apart(name) {
        Ok(device) => Some(device),
        Err(error) => {
            assert!(name == "wgpu", "{name}: {error}");
            None
        }
    };
    names.filter_map(open).collect()
}

fn x(device: &Device) -> Array {
    Array::new(device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])
}

fn wrong(device: &Device) -> Array {
    Array::new(device, &[0i32, 7], &[2])
}

/// Asserts that something is the error of an operation at a line of this file.
fn is_index<T: std::fmt::Debug>(found: Result<T, Error>, op: &str, line: u32) {
    let text = match found {
        Err(error) => error.to_string(),
        Ok(found) => panic!("`{op}` in line {line}: {found:?}"),
    };
    assert!(text.contains(&format!("tests/faults.rs:{line}:")), "line {line}: {text}");
    assert!(text.contains(&format!("`{op}`: an index lies outside of its axis, which has")), "{text}");
}

#[test]
fn what_a_failed_run_made_holds_its_error() {
    for device in devices() {
        let taken = x(&device).take(&wrong(&device), 1);
        let line = line!() - 1;
        let y = taken * 2.0;
        let later = &y + 1.0;
        for _ in 0..3 {
            is_index(y.to_vec::<f32>(), "take", line);
            is_index(y.eval(), "take", line);
            is_index(y.tensor().map(drop), "take", line);
            is_index(later.to_vec::<f32>(), "take", line);
            is_index((&y + 1.0).sum().item::<f32>(), "take", line);
        }
        is_index(y.error().map_or(Ok(()), Err), "take", line);
        let text = y.to_string();
        assert!(text.contains("`take`: an index lies outside"), "{text}");
        let copy = y.to_device(&Device::open("interp").unwrap());
        is_index(copy.error().map_or(Ok(()), Err), "take", line);
    }
}

#[test]
fn what_is_made_of_a_shape_of_a_wrong_array_holds_its_error() {
    for device in devices() {
        let taken = x(&device).take(&wrong(&device), 1);
        let line = line!() - 1;
        let product = taken.reshape(&[4, 1]).matmul(&taken.reshape(&[1, 4]));
        let sum = product.sum();
        assert!(eval(&[&taken, &product, &sum]).is_ok());
        is_index(sum.item::<f32>(), "take", line);
        is_index(product.to_vec::<f32>(), "take", line);
        is_index(taken.to_vec::<f32>(), "take", line);
    }
}

#[test]
fn a_healthy_array_has_no_error_of_another_run() {
    for device in devices() {
        for round in 0..4 {
            // The same structure at each round, so that later ones run from a list.
            let y = x(&device).take(&wrong(&device), 1);
            let line = line!() - 1;
            let _ = y.eval();
            // A GPU tells the first fault of many runs only, of which any could have had one.
            if device.capabilities().on_host {
                let healthy = x(&device).take(&Array::new(&device, &[0i32, 2], &[2]), 1);
                assert_eq!(healthy.to_vec::<f32>().unwrap(), [1.0, 3.0, 4.0, 6.0], "round {round}");
            }
            assert_eq!((x(&device) + 1.0).to_vec::<f32>().unwrap()[5], 7.0);
            is_index(y.to_vec::<f32>(), "take", line);
        }
    }
}

/// A program is compiled once for all lines that have its structure, and each has its own.
#[test]
fn the_line_is_that_of_the_operation() {
    for device in devices() {
        let (x, at) = (x(&device), wrong(&device));
        let column = at.unsqueeze(1);
        let first = x.take(&at, 1);
        is_index(first.to_vec::<f32>(), "take", line!() - 1);
        let other = x.take(&at, 1);
        is_index(other.to_vec::<f32>(), "take", line!() - 1);
        // Of two in one kernel, the one that is wrong.
        let fine = x.take(&Array::new(&device, &[1i32, 2], &[2]), 1);
        let both = fine + x.take(&at, 1);
        is_index(both.to_vec::<f32>(), "take", line!() - 1);
        let row = Array::new(&device, &[0i64, 9, 1], &[1, 3]);
        is_index(x.take_along(&row, 0).to_vec::<f32>(), "take_along", line!());
        is_index(x.scatter(&at, 0.0, 1).to_vec::<f32>(), "scatter", line!());
        is_index(x.scatter_add(&at, 1.0, 1).to_vec::<f32>(), "scatter_add", line!());
        is_index(x.put_along(&column, 0.0, 1).to_vec::<f32>(), "put_along", line!());
        is_index(x.add_along(&column, 1.0, 1).to_vec::<f32>(), "add_along", line!());
        let loss = x.cross_entropy(&at);
        let line = line!() - 1;
        is_index(loss.item::<f32>(), "cross_entropy", line);
        is_index(loss.item::<f32>(), "cross_entropy", line);
        let table = Embedding::new(&device, Key::new(1), 3, 4);
        is_index(table.forward(&at).to_vec::<f32>(), "take", line!());
        let (loss, slope) = value_and_grad(|table: &Array| table.take(&at, 0).sum(), &table.weight);
        let line = line!() - 1;
        let next = &table.weight - &slope * 0.1;
        let _ = eval(&[&loss, &next]);
        is_index(loss.item::<f32>(), "take", line);
        let masked = x.where_(&x.greater(2.0), x.take(&at, 1).sum());
        let line = line!() - 1;
        for _ in 0..2 {
            let chosen = masked.mask_select(&masked.greater(0.0));
            is_index(chosen.to_vec::<f32>(), "take", line);
        }
    }
}

/// A fault of another kernel is no array's: it is told once.
#[test]
fn a_fault_of_a_kernel_is_told_once() {
    use kiln_lang::prelude::*;

    #[kernel(crate = kiln_runtime)]
    fn inverse(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
        let i = thread_index();
        y.set_or_skip(i, val::<i32>(1000) / x.get_or(i, 1));
    }

    for device in devices() {
        let zero = device.tensor(&[0], [1]).unwrap();
        let mut y = device.zeros([1]).unwrap();
        inverse(&zero, &mut y).grid([1]).block([32]).launch(&device).unwrap();
        let healthy = match device.capabilities().on_host {
            true => x(&device).take(&Array::new(&device, &[2], &[1]), 1),
            false => x(&device).slice(1, 2..) * 1.0,
        };
        let error = healthy.to_vec::<f32>().unwrap_err().to_string();
        assert!(error.contains("division by zero"), "{error}");
        assert_eq!(healthy.to_vec::<f32>().unwrap(), [3.0, 6.0]);
    }
}

/// What an operation makes of two arrays, an axis and a number.
type Operation = fn(&Array, &Array, isize, usize) -> Vec<Array>;

/// Operations, by subject. Calls here are the lines that errors must name.
#[rustfmt::skip]
const OPERATIONS: &[Operation] = &[
    |x, y, _, _| vec![x + y, x - y, x * y, x / y, x % y, x & y, x | y, x ^ y, -x, !x],
    |x, y, _, _| vec![x.maximum(y), x.minimum(y), x.clip(y, y), x.floor_divide(y), x.pow(y), x.atan2(y)],
    |x, y, _, _| vec![x.shift_left(y), x.shift_right(y), x.equal(y), x.less(y), x.where_(y, x), x.where_(x, y)],
    |x, _, _, _| vec![x.exp(), x.abs(), x.expm1(), x.log10(), x.tan(), x.asin(), x.acos(), x.atan(), x.sinh()],
    |x, _, _, _| vec![x.cosh(), x.is_finite(), x.is_inf(), x.is_nan(), x.sign(), x.square(), x.relu(), x.silu()],
    |x, _, _, _| vec![x.gelu(), x.round(), x.floor(), x.sigmoid(), x.rsqrt(), x.recip(), x.cast(Scalar::U8)],
    |x, _, axis, n| vec![x.roll(1, axis), x.repeat(n, axis), x.tile(&[n, 2]), x.tril(1), x.triu(1), x.diff(axis)],
    |x, _, axis, n| vec![x.diagonal(), x.trace(), x.move_axis(axis, n as isize), x.one_hot(n, Scalar::F32)],
    |x, _, axis, _| vec![x.sum_axes(&[axis]), x.mean_keep(&[axis]), x.var_axes(&[axis]), x.std_keep(&[axis])],
    |x, _, axis, _| vec![x.max_axes(&[axis]), x.any_axes(&[axis]), x.all_keep(&[axis]), x.prod_axes(&[axis])],
    |x, _, axis, _| vec![x.argmax(axis), x.argmin(axis), x.max(), x.mean(), x.all(), x.sum_axes(&[axis, axis])],
    |x, _, axis, _| vec![x.softmax(axis), x.log_softmax(axis), x.logsumexp(axis), x.cumsum(axis), x.cumprod(axis)],
    |x, _, axis, _| vec![x.cummax(axis), x.cummin(axis), x.sort(axis), x.argsort(axis)],
    |x, y, _, _| vec![x.layer_norm(y, y, 1e-5), x.rms_norm(y, 1e-5), x.cross_entropy(y), x.matmul(y)],
    |x, _, axis, n| { let (a, b) = x.top_k(n, axis); vec![a, b] },
    |x, y, axis, _| vec![x.take(y, axis), x.take_along(y, axis), x.scatter(y, 1.0, axis), x.scatter(x, y, axis)],
    |x, y, axis, _| vec![x.scatter_add(y, 1.0, axis), x.put_along(y, 1.0, axis), x.add_along(y, 1.0, axis)],
    |x, y, axis, _| vec![concatenate(&[x, y], axis), stack(&[x, y], axis), concatenate(&[], axis), stack(&[], axis)],
    |x, _, axis, n| x.split(axis, &[n, 1]),
    |x, y, _, _| vec![einsum("ij,jk->ik", &[x, y]), einsum("ii->i", &[x]), einsum("i->", &[x, y]), einsum("?", &[x])],
    |x, y, axis, _| { let (a, b) = x.fft(y, axis); vec![a, b] },
    |x, y, axis, _| { let (a, b) = x.ifft(y, axis); vec![a, b] },
    |x, y, axis, n| { let (a, b) = x.rfft(axis); vec![a, b, x.irfft(y, n, axis)] },
    |x, y, _, _| vec![x.pinv(), x.lstsq(y), x.matrix_norm(MatrixNorm::Nuclear), x.cholesky(), x.solve(y)],
    |x, y, _, _| { let (a, b) = x.slogdet(); vec![a, b, x.solve_triangular(y, true), x.inverse(), x.determinant()] },
    |x, _, _, _| { let (a, b) = x.qr(); vec![a, b] },
    |x, _, _, _| { let (a, b) = x.eigh(); vec![a, b] },
    |x, _, _, _| { let (a, b, c) = x.svd(); vec![a, b, c] },
    |x, y, axis, _| vec![x.mask_select(y), x.compress(y, axis), x.mask_select(&x.greater(0.0))],
    |x, _, _, _| x.nonzero(),
    |x, _, axis, n| vec![x.broadcast_to(&[n, 2]), x.reshape(&[-1, 5]), x.permute(&[axis]), x.swap_axes(axis, 0)],
    |x, _, axis, n| vec![x.transpose(), x.slice(axis, 1..n), x.slice_step(axis, ..n, 0), x.select(axis, n as isize)],
    |x, _, axis, n| vec![x.flip(&[axis]), x.pad(&[(1, 1)]), x.unsqueeze(axis), x.squeeze(axis), x.windows(axis, n, 1)],
    |x, y, _, n| vec![x.conv2d(y, [n, 1], [0, 0]), x.max_pool2d([n, 2], [1, 1]), x.avg_pool2d([n, 2], [1, 1])],
    |x, y, _, n| vec![x.convolve2d(y, Convolution::new().groups(n)), x.conv1d(y, n, 0), x.conv_transpose1d(y, n, 0)],
    |x, y, _, n| vec![x.conv_transpose2d(y, [n, n], [n, n]), Array::from_result(x.item::<f32>().map(|_| x.clone()))],
];

/// Whatever is wrong, no line of this crate's own is.
#[test]
fn errors_name_no_line_of_the_crate() {
    let device = Device::open_apart("cpu").unwrap();
    let ones = |dtype, shape: &[usize]| Array::ones(&device, dtype, shape);
    let elsewhere = Array::ones(&Device::open("interp").unwrap(), Scalar::F32, &[2, 3]);
    let mut arrays = vec![elsewhere];
    for dtype in [Scalar::F32, Scalar::I32, Scalar::Bool, Scalar::BF16] {
        arrays.extend(
            [&[][..], &[0], &[3], &[2, 3], &[3, 3], &[2, 3, 4], &[1, 2, 3, 4]].map(|s| ones(dtype, s)),
        );
    }
    let (mut errors, mut outside) = (0, BTreeSet::new());
    for (number, operation) in OPERATIONS.iter().enumerate() {
        for (at, x) in arrays.iter().enumerate() {
            for (beside, y) in arrays.iter().enumerate() {
                let axis = [0, 1, 9, -7][(at + beside) % 4];
                for (of, made) in operation(x, y, axis, (at + 2 * beside) % 5).iter().enumerate() {
                    let Some(error) = made.error() else { continue };
                    errors += 1;
                    let text = error.to_string();
                    let is_here = text.contains("tests/faults.rs:") && !text.contains("kiln-array/src");
                    if !is_here {
                        outside.insert(format!("operation {number}, {of}: {text}"));
                    }
                }
            }
        }
    }
    assert!(outside.is_empty(), "{outside:#?}");
    assert!(errors > 1000, "{errors}");
}

/// What other threads wait for at any time takes no error from a run's results. Theirs may hold it
/// too: of a GPU's faults it is not known whose they are.
#[test]
fn waits_of_other_threads_take_no_error() {
    for device in devices() {
        let (done, began) = (AtomicBool::new(false), Instant::now());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let right = Array::new(&device, &[0i32, 2], &[2]);
                while !done.load(SeqCst) {
                    let _ = x(&device).take(&right, 1).to_vec::<f32>();
                }
            });
            let wrongs = (0..100).take_while(|_| began.elapsed() < Duration::from_secs(20));
            let found: Vec<_> = wrongs.map(|_| x(&device).take(&wrong(&device), 1).to_vec::<f32>()).collect();
            let line = line!() - 1;
            done.store(true, SeqCst);
            found.into_iter().for_each(|found| is_index(found, "take", line));
        });
    }
}

/// The program's own waits are told of a fault, and arrays hold it all the same.
#[test]
fn a_fault_that_the_program_was_told_is_no_less_an_arrays_error() {
    for device in devices() {
        let tensor = device.tensor(&[1.0f32], [1]).unwrap();
        let waits: [&dyn Fn() -> bool; 3] = [
            &|| device.synchronize().is_err(),
            &|| device.stream().and_then(|stream| stream.synchronize()).is_err(),
            &|| tensor.to_vec().is_err(),
        ];
        let was_told = waits.map(|wait| {
            let y = x(&device).take(&wrong(&device), 1) * 2.0;
            let line = line!() - 1;
            // On the host's processors the error comes at once.
            let _ = y.eval();
            let was_told = wait();
            is_index(y.to_vec::<f32>(), "take", line);
            is_index((&y + 1.0).to_vec::<f32>(), "take", line);
            let fine = x(&device).take(&Array::new(&device, &[1i32], &[1]), 1);
            assert_eq!(fine.to_vec::<f32>().unwrap(), [2.0, 5.0], "a run after the fault was told");
            was_told
        });
        assert_eq!(was_told[0], !device.capabilities().on_host, "{}", device.id());
    }
}
