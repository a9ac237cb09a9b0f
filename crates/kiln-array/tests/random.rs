//! Random graphs: computed together, which fuses, and each array by itself, which does not.

use kiln_array::{Array, Padding, Scalar, concatenate, eval, jvp, stack, vjp, vmap};
use kiln_fuzz::GpuCode;
use kiln_runtime::{Device, DiskCache};

/// One random operation on arrays of before.
fn grow(random: &mut fastrand::Rng, all: &[Array]) -> Array {
    let x = &all[random.usize(..all.len())];
    let y = &all[random.usize(..all.len())];
    let axis = |random: &mut fastrand::Rng, x: &Array| random.usize(..x.rank().max(1)) as isize;
    let a = axis(random, x);
    if x.rank() == 0 {
        return x.broadcast_to(&[random.usize(1..4), 2]) * 0.5;
    }
    match random.u32(..39) {
        0 => (x * 0.25).exp().minimum(8.0),
        1 => x.tanh(),
        2 => x - 1.5,
        3 => x.maximum(0.25),
        4..7 if x.shape() == y.shape() => (x + y) * 0.5,
        7 => x - x.mean_keep(&[a]),
        8 => x.softmax(a),
        9 => x.sum_axes(&[a]) * 0.25,
        10 => x.max_keep(&[a]) + x,
        11 => x.transpose(),
        12 => x.flip(&[a]),
        13 => x.reshape(&[-1]),
        14 if x.len().is_multiple_of(6) => x.reshape(&[6, -1]),
        15 if x.shape()[a as usize] > 1 => x.slice(a, 1..),
        16 if x.len() < 200 => {
            let mut widths = vec![(0, 0); x.rank()];
            widths[a as usize] = (1, 2);
            x.pad(&widths)
        }
        17 => x.cumsum(a) * 0.125,
        18 if x.len() < 200 => concatenate(&[x, &x.sin()], a),
        19 if x.rank() == 2 => x.matmul(&x.transpose()) * 0.0625,
        20 => x.where_(&x.greater(0.0), &(x * 2.0)),
        21 => x.take(&x.argmax(a).flatten().slice(0, ..1), a),
        // Differences of all pairs, of which one side may be a part.
        22 if x.len() <= 36 && x.rank() <= 2 => {
            let part = x.slice(0, ..random.usize(1..=x.shape()[0]));
            x.unsqueeze(1) - part.unsqueeze(0) * 0.5
        }
        23 if x.len() < 200 && x.shape()[a as usize] > 2 => x.windows(a, 2, 1) * 0.5,
        24 if x.shape()[a as usize] > 2 => x.slice_step(a, .., -2),
        25 if x.len() < 200 => stack(&[x, &x.flip(&[a]).cos()], a),
        26 => (0..7).fold(x.clone(), |x, i| (x + f64::from(i)) * 0.5),
        // What is put or added where others are, and sorted, by kernels of the library too.
        27 => x.scatter_add(&x.argmin(a).flatten().slice(0, ..1), x.mean_keep(&[a]), a),
        28 if x.shape()[a as usize] > 1 => x.scatter(&places(random, x, a), 0.5, a),
        29 if x.shape()[a as usize] > 1 => {
            let at = places(random, x, a);
            x.scatter_add(&at, x.take(&at, a) * 0.25, a)
        }
        30 => x.add_along(&x.argmax(a).unsqueeze(a), x.min_keep(&[a]) * 0.5, a).sort(a),
        31 => x.roll(random.usize(..4) as isize - 2, a),
        32 if x.len() < 100 => x.repeat(2, a),
        33 if x.len() < 100 => x.tile(&[2, 1]),
        34 if x.rank() == 2 => x.tril(random.usize(..3) as isize - 1) + x.triu(0),
        35 if x.rank() >= 2 => x.diagonal() * 0.5,
        36 => x + (x.argmin(a).unsqueeze(a).cast(Scalar::U8) - 250).cast(x.dtype()) * 0.125,
        37 => (x.argmax(a).unsqueeze(a).cast(Scalar::I16) * 300).cumsum(a).cast(x.dtype()).sin(),
        38 if x.len() < 200 => {
            let with = [Padding::Constant(0.5), Padding::Edge, Padding::Reflect, Padding::Wrap];
            let mut widths = vec![(0, 0); x.rank()];
            widths[a as usize] = (random.usize(..3), random.usize(..4));
            x.pad_with(&widths, with[random.usize(..4)])
        }
        _ => (x.abs() + 1.0).log(),
    }
}

/// Three indices of an axis.
fn places(random: &mut fastrand::Rng, x: &Array, axis: isize) -> Array {
    let extent = x.shape()[axis as usize] as i64;
    let at: Vec<i64> = (0..3).map(|_| random.i64(-extent..extent)).collect();
    Array::new(x.device().unwrap(), &at, &[3])
}

fn graph(seed: u64, device: &Device, each_by_itself: bool) -> Vec<Array> {
    let mut random = fastrand::Rng::with_seed(seed);
    let shapes: [&[usize]; 4] = [&[3, 4], &[12], &[2, 3, 2], &[6, 5]];
    let mut all: Vec<Array> = Vec::new();
    for shape in shapes {
        let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| random.f32() * 4.0 - 2.0).collect();
        all.push(Array::new(device, &numbers, shape));
    }
    for _ in 0..random.usize(4..24) {
        let next = grow(&mut random, &all);
        if each_by_itself {
            next.eval().unwrap();
        }
        all.push(next);
    }
    all
}

/// On the CPU, or the device that the environment variable `KILN_DEVICE` names.
#[test]
fn fused_graphs_compute_what_single_operations_do() {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    check(&Device::open(&name).unwrap(), 0..100);
}

/// Where the sanitizer sees what is read before it is written, and what two programs write.
#[test]
fn fused_graphs_are_clean() {
    check(&Device::open("interp").unwrap(), 60..80);
}

/// The code that a GPU is given, run by the interpreter.
#[test]
fn fused_graphs_are_right_as_code_for_gpus() {
    let backend = GpuCode::named(GpuCode::NAME).unwrap();
    check(&Device::with_backend(Box::new(backend), DiskCache::none()), 80..92);
}

fn check(device: &Device, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let apart = graph(seed, device, true);
        let together = graph(seed, device, false);
        // Some of the arrays are asked for, all of the last ones among them.
        let mut random = fastrand::Rng::with_seed(seed + 1000);
        let last = together.len() - 3;
        let chosen: Vec<usize> = (0..together.len()).filter(|&i| i >= last || random.u32(..4) == 0).collect();
        let targets: Vec<&Array> = chosen.iter().map(|&i| &together[i]).collect();
        eval(&targets).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for i in chosen {
            let (a, b) = (apart[i].to_vec::<f32>().unwrap(), together[i].to_vec::<f32>().unwrap());
            assert_eq!((apart[i].shape(), a.len()), (together[i].shape(), b.len()), "seed {seed}");
            for (x, y) in a.iter().zip(&b) {
                let close = x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= 2e-4 * x.abs().max(1.0);
                assert!(close, "seed {seed}, array {i} {:?}: {x} by itself, {y} fused", together[i]);
            }
        }
    }
}

/// The graph of a seed, of arrays that are given.
fn grown(seed: u64, given: &[Array]) -> Vec<Array> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all = given.to_vec();
    for _ in 0..random.usize(4..16) {
        let next = grow(&mut random, &all);
        all.push(next);
    }
    all.split_off(all.len() - 3)
}

fn inputs(random: &mut fastrand::Rng, device: &Device, parts: &[usize]) -> Vec<Array> {
    let shapes: [&[usize]; 3] = [&[3, 4], &[12], &[2, 3, 2]];
    let mut input = |shape: &&[usize]| {
        let shape = [parts, *shape].concat();
        let numbers: Vec<f64> = (0..shape.iter().product()).map(|_| random.f64() * 4.0 - 2.0).collect();
        Array::new(device, &numbers, &shape)
    };
    shapes.iter().map(&mut input).collect()
}

fn far(a: &Array, b: &Array) -> f64 {
    let of = |x: &Array| x.cast(Scalar::F64).to_vec::<f64>().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()), "{:?} {:?}", a.error(), b.error());
    let distance = |(x, y): (f64, f64)| if x == y || x.is_nan() && y.is_nan() { 0.0 } else { (x - y).abs() };
    of(a).into_iter().zip(of(b)).map(distance).fold(0.0, f64::max)
}

/// Of many arrays at once what a loop gives, and of one array forwards what there is backwards.
#[test]
fn graphs_under_transformations() {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    let device = Device::open(&name).unwrap();
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let many = inputs(&mut random, &device, &[3]);
        let all = vmap(|given: &Vec<Array>| grown(seed, given), &many);
        for part in 0..3 {
            let given: Vec<Array> = many.iter().map(|x| x.select(0, part)).collect();
            for (got, expected) in all.iter().zip(grown(seed, &given)) {
                let (got, scale) = (got.select(0, part), 1.0 + far(&expected, &(&expected * 0.0)));
                assert!(far(&got, &expected) < 1e-9 * scale, "seed {seed}: {got} and {expected}");
            }
        }
        let (x, v) = (inputs(&mut random, &device, &[]), inputs(&mut random, &device, &[]));
        let f = |given: &Vec<Array>| grown(seed, given);
        let (y, changes) = jvp(f, &x, &v);
        let weights: Vec<Array> = y.iter().map(|y| (y.cos() + 0.5).stop_gradient()).collect();
        let (_, pull_back) = vjp(f, &x);
        let dot = |a: &[Array], b: &[Array]| -> (f64, f64) {
            let products = a.iter().zip(b).map(|(a, b)| (a * b, (a * b).abs()));
            products.fold((0.0, 0.0), |(sum, most), (of, size)| {
                (sum + of.sum().item::<f64>().unwrap(), most + size.sum().item::<f64>().unwrap())
            })
        };
        let ((forwards, a), (backwards, b)) = (dot(&changes, &weights), dot(&pull_back(&weights), &v));
        let fine = (forwards - backwards).abs() <= 1e-10 * (1.0 + a.max(b))
            || forwards.is_nan() == backwards.is_nan() && forwards.is_nan();
        assert!(fine, "seed {seed}: {forwards} forwards, {backwards} backwards");
    }
}
