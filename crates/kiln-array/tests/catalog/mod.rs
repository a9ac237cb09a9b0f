//! Every differentiable operation, as a function of one array: what is tested of all of them.

use kiln_array::{
    Array, Convolution, Pairs, concatenate, cond, custom_vjp, einsum, meshgrid, nn, scan, stack,
};
use kiln_ir::Scalar;
use kiln_runtime::Device;

/// A function, with its name and the shape of what it takes.
pub struct Case {
    pub name: &'static str,
    pub shape: &'static [usize],
    /// Whether it is for positive numbers alone.
    pub positive: bool,
    pub f: fn(&Array) -> Array,
}

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
pub fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

/// Numbers without ties, away from zero, by turns of both signs; others for each seed.
pub fn numbers(len: usize, positive: bool, seed: usize) -> Vec<f64> {
    let number = |i: usize| 0.3 + ((i * 37 + 11 + seed * 29) % 101) as f64 / 41.0 + i as f64 * 1e-3;
    (0..len).map(|i| if positive || (i + seed) % 3 != 1 { number(i) } else { -number(i) }).collect()
}

/// The numbers as an array.
pub fn array(shape: &[usize], positive: bool, seed: usize) -> Array {
    Array::new(&device(), &numbers(shape.iter().product(), positive, seed), shape)
}

/// An array of f64 beside another one.
fn beside(x: &Array, shape: &[usize]) -> Array {
    Array::new(x.device().unwrap(), &numbers(shape.iter().product(), true, 5), shape)
}

fn indices(x: &Array, of: &[i32], shape: &[usize]) -> Array {
    Array::new(x.device().unwrap(), of, shape)
}

macro_rules! cases {
    ($($name:literal $kind:ident $shape:expr, $f:expr;)*) => {
        vec![$(Case { name: $name, shape: &$shape, positive: cases!(@ $kind), f: $f },)*]
    };
    (@ all) => { false };
    (@ positive) => { true };
}

pub fn cases() -> Vec<Case> {
    let mut all = elements();
    all.extend(views());
    all.extend(rows());
    all.extend(products());
    all.extend(indexed());
    all
}

fn elements() -> Vec<Case> {
    cases! {
        "exp" all [7], Array::exp;
        "exp2" all [7], Array::exp2;
        "log" positive [7], Array::log;
        "log2" positive [7], Array::log2;
        "log1p" positive [7], Array::log1p;
        "sin" all [7], Array::sin;
        "cos" all [2, 3], Array::cos;
        "tanh" all [7], Array::tanh;
        "erf" all [7], Array::erf;
        "sigmoid" all [7], Array::sigmoid;
        "sqrt" positive [7], Array::sqrt;
        "rsqrt" positive [7], Array::rsqrt;
        "recip" all [7], Array::recip;
        "abs" all [7], Array::abs;
        "neg" all [7], |x| -x;
        "square" all [7], Array::square;
        "relu" all [7], Array::relu;
        "silu" all [7], Array::silu;
        "gelu" all [7], Array::gelu;
        "sign" all [7], |x| x.sign() * x;
        "floor" all [7], |x| x.floor() + x;
        "ceil" all [7], |x| x.ceil() * x;
        "round" all [7], |x| x.round() + x;
        "trunc" all [7], |x| x.trunc() * x;
        "number" all [], |x| x.exp() * 2.0;
        "pow whole" all [7], |x| x.pow(3);
        "pow" positive [7], |x| x.pow(2.5);
        "pow by" positive [2, 4], |x| beside(x, &[4]).pow(x);
        "pow of" positive [2, 4], |x| x.pow(beside(x, &[4]));
        "add" all [3, 4], |x| x + beside(x, &[4]);
        "sub" all [3, 1], |x| beside(x, &[4]) - x;
        "mul" all [3, 4], |x| x * beside(x, &[3, 1]);
        "div" all [4], |x| beside(x, &[3, 4]) / x;
        "divided" all [4], |x| x / beside(x, &[3, 4]);
        "rem" all [4], |x| x % beside(x, &[4]);
        "floor_divide" all [4], |x| x.floor_divide(beside(x, &[4])) + x;
        "maximum" all [4], |x| x.maximum(beside(x, &[4]) * 0.5);
        "minimum" all [3, 4], |x| x.minimum(beside(x, &[4]) * 0.5);
        "atan2" all [4], |x| x.atan2(beside(x, &[4])) + beside(x, &[4]).atan2(x);
        "clip" all [3, 4], |x| x.clip(-0.4, 1.1);
        "where" all [3, 4], |x| x.where_(&x.greater(0.2), x * 3.0);
        "where else" all [4], |x| beside(x, &[3, 4]).where_(&x.less(0.2), x.exp());
        "cast" all [5], |x| (x.cast(Scalar::F64) * x).cast(Scalar::F64);
        "expm1" all [7], Array::expm1;
        "log10" positive [7], Array::log10;
        "tan" all [7], |x| (x * 0.4).tan();
        "asin" all [7], |x| (x * 0.3).asin();
        "acos" all [7], |x| (x * 0.3).acos();
        "atan" all [7], Array::atan;
        "sinh" all [7], Array::sinh;
        "cosh" all [7], Array::cosh;
        "asinh" all [7], Array::asinh;
        "acosh" positive [7], |x| (x + 1.0).acosh();
        "atanh" all [7], |x| (x * 0.3).atanh();
        "cbrt" all [7], Array::cbrt;
        "hypot" all [4], |x| x.hypot(beside(x, &[3, 4])) * x;
        "hypot of" all [3, 1], |x| beside(x, &[4]).hypot(x.exp());
        "cond" all [7], |x| cond(&x.greater(0.0), x, Array::sqrt, Array::exp);
        "stop_gradient" all [5], |x| x * x.stop_gradient().floor();
        "custom_vjp" all [5], |x| custom_vjp(
            &[x, &x.exp()],
            |of| of[0].sin() * &of[1],
            |of, y, g| vec![g * of[0].cos() * &of[1], g * y / &of[1]],
        );
    }
}

fn views() -> Vec<Case> {
    cases! {
        "broadcast_to" all [3, 1], |x| x.broadcast_to(&[2, 3, 4]);
        "reshape" all [4, 3], |x| x.reshape(&[2, -1]);
        "flatten" all [4, 3], |x| x.exp().transpose().flatten();
        "transpose" all [4, 3], |x| x.transpose() * 2.0;
        "permute" all [2, 3, 4], |x| x.permute(&[1, 2, 0]);
        "swap_axes" all [2, 3, 4], |x| x.swap_axes(0, -1);
        "slice" all [5, 4], |x| x.slice(0, 1..3).slice(1, 2..);
        "slice of none" all [5, 4], |x| x.slice(0, 2..2).sum_axes(&[0]) + x.select(0, 1);
        "slice_step" all [7, 3], |x| x.slice_step(0, 1..6, 2);
        "slice back" all [7, 3], |x| x.slice_step(0, .., -3);
        "select" all [3, 4], |x| x.select(1, -2);
        "flip" all [3, 4], |x| x.flip(&[1]);
        "pad" all [2, 3], |x| x.exp().pad(&[(1, 0), (2, 1)]);
        "squeeze" all [3, 1], |x| x.squeeze(1).unsqueeze(0);
        "concatenate" all [2, 3], |x| concatenate(&[&x.exp(), x, &(x * x)], 1);
        "stack" all [2, 3], |x| stack(&[&x.exp(), x], 1);
        "split" all [5, 2], |x| x.split(0, &[2, 3])[1].clone();
        "roll" all [3, 4], |x| x.exp().roll(-1, 1).roll(2, 0);
        "repeat" all [3, 2], |x| x.repeat(3, 0).repeat(2, -1);
        "tile" all [3, 2], |x| x.tile(&[2, 1, 2]);
        "tril" all [3, 4], |x| x.exp().tril(1);
        "triu" all [2, 4, 3], |x| x.triu(-1) * x;
        "diagonal" all [2, 4, 3], |x| x.exp().diagonal();
        "trace" all [3, 4], |x| x.trace() * x;
        "move_axis" all [2, 3, 4], |x| x.move_axis(0, 1);
        "diff" all [5, 2], |x| x.square().diff(0);
        "meshgrid" all [4], |x| { let grid = meshgrid(&[x, &x.exp()]); &grid[0] * &grid[1] };
        "windows" all [2, 7], |x| x.windows(1, 3, 2);
        "windows apart" all [7], |x| x.exp().windows(0, 2, 2);
    }
}

fn rows() -> Vec<Case> {
    cases! {
        "sum" all [2, 3, 4], Array::sum;
        "sum_axes" all [2, 3, 4], |x| x.sum_axes(&[0, 2]);
        "mean" all [2, 3, 4], |x| x.mean_axes(&[0]);
        "std" all [2, 3, 4], |x| x.std_axes(&[1]);
        "norm" all [2, 3, 4], |x| x.norm_axes(&[0, 2]) * x.norm();
        "norm_keep" all [2, 3, 4], |x| x / x.norm_keep(&[2]);
        "scan" all [3, 4], |x| scan(|c: &Array, x: &Array| { let c = c * 0.5 + x.sin(); (c.clone(), c * x) }, x.select(0, 0), x).1;
        "rfft" all [2, 6], |x| x.rfft(1).1;
        "irfft" all [4], |x| x.irfft(&x.exp(), 6, 0);
        "var" all [2, 3, 4], |x| x.var_keep(&[-1]);
        "max" all [2, 3, 4], |x| x.max_axes(&[1]);
        "min" all [2, 3, 4], |x| x.min_axes(&[0, 2]);
        "prod" all [2, 3, 4], |x| x.prod_axes(&[2]);
        "prod_keep" all [2, 3, 2], |x| x.prod_keep(&[0, 1]);
        "long sum" all [3000], |x| x.sum() * 0.01;
        "cumsum" all [2, 3, 4], |x| x.cumsum(1);
        "cumsum last" all [9], |x| x.cumsum(0) * x;
        "softmax" all [2, 3, 4], |x| x.softmax(-1);
        "log_softmax" all [2, 3, 4], |x| x.log_softmax(1);
        "logsumexp" all [2, 3, 4], |x| x.logsumexp(-1);
        "layer_norm" all [2, 3, 4], |x| x.layer_norm(&x.sum_axes(&[0, 1]), &x.mean_axes(&[0, 1]), 1e-5);
        "rms_norm" all [2, 3, 4], |x| x.rms_norm(&x.sum_axes(&[0, 1]), 1e-5);
        "group_norm" all [2, 3, 4], |x| x.group_norm(2, &x.sum_axes(&[0, 1]), &x.mean_axes(&[0, 1]), 1e-5);
        "rotary halves" all [3, 2, 4], |x| x.exp().rotary(&beside(x, &[3]), 100.0, Pairs::Halves);
        "rotary neighbors" all [2, 2, 1, 4], |x| x.rotary(&beside(x, &[2, 2]), 10000.0, Pairs::Neighbors) * x;
    }
}

fn products() -> Vec<Case> {
    cases! {
        "matmul left" all [2, 3], |x| x.matmul(&beside(x, &[3, 4]));
        "matmul right" all [4, 2], |x| beside(x, &[3, 4]).matmul(x).tanh();
        "matmul both" all [3, 3], |x| x.matmul(&x.exp());
        "matmul transposed" all [4, 3], |x| x.transpose().matmul(&beside(x, &[4, 2]));
        "matmul gram" all [3, 2], |x| x.matmul(&x.transpose());
        "matmul stack" all [5, 2, 3], |x| x.matmul(&beside(x, &[3, 4]));
        "matmul stacks" all [5, 2, 3], |x| x.matmul(&beside(x, &[5, 3, 4]));
        "matmul shared left" all [2, 3], |x| x.matmul(&beside(x, &[5, 3, 4]));
        "matmul shared right" all [3, 4], |x| beside(x, &[5, 2, 3]).matmul(x);
        "matmul of stack" all [5, 3, 2], |x| beside(x, &[4, 3]).matmul(x);
        "matmul stack itself" all [3, 2, 2], |x| x.matmul(&x.slice(0, ..1));
        "matmul row" all [3], |x| x.matmul(&beside(x, &[3, 4]));
        "matmul column" all [3], |x| beside(x, &[4, 3]).matmul(x);
        "dot" all [3], |x| x.matmul(&x.exp());
        "einsum" all [2, 3, 4], |x| einsum("bij,bkj->ik", &[x, &x.exp()]);
        "conv2d" all [2, 2, 4, 5], |x| x.conv2d(&beside(x, &[3, 2, 2, 3]), [2, 1], [1, 0]);
        "conv2d weight" all [3, 2, 2, 2], |x| beside(x, &[1, 2, 4, 3]).conv2d(x, [1, 2], [0, 1]);
        "conv1d" all [2, 2, 5], |x| x.conv1d(&beside(x, &[3, 2, 2]), 2, 1);
        "convolve2d" all [1, 4, 5, 6], |x| x.convolve2d(&beside(x, &[6, 2, 2, 2]), Convolution::new().step([1, 2]).padding([1, 0]).dilation([2, 3]).groups(2));
        "depthwise" all [1, 3, 4, 4], |x| x.convolve2d(&beside(x, &[3, 1, 2, 3]), Convolution::new().padding([1, 1]).groups(3));
        "depthwise weight" all [3, 1, 2, 2], |x| beside(x, &[2, 3, 4, 3]).convolve2d(x, Convolution::new().groups(3).dilation([2, 1]));
        "conv_transpose2d" all [1, 2, 2, 3], |x| x.conv_transpose2d(&beside(x, &[2, 2, 3, 2]), [2, 1], [1, 0]);
        "cholesky" all [3, 3], |x| (x.matmul(&x.transpose()) + Array::eye(x.device().unwrap(), Scalar::F64, 3)).cholesky();
        "solve" all [2, 2], |x| (x + Array::eye(x.device().unwrap(), Scalar::F64, 2) * 9.0).solve(x);
        "determinant" all [2, 3, 3], |x| (x + Array::eye(x.device().unwrap(), Scalar::F64, 3) * 2.0).determinant();
        "einsum diagonal" all [3, 2, 3], |x| einsum("iji,kjl->jk", &[x, &x.exp()]);
        "cumprod" all [2, 5], |x| x.cumprod(1);
        "cummax" all [7, 2], |x| x.cummax(0) * x;
        "qr" all [3, 2], |x| (x * x).qr().1;
        "max_pool2d" all [1, 2, 4, 4], |x| x.max_pool2d([2, 2], [2, 1]);
        "avg_pool2d" all [1, 2, 4, 4], |x| x.avg_pool2d([2, 3], [1, 1]);
    }
}

fn indexed() -> Vec<Case> {
    cases! {
        "take" all [3, 2], |x| x.exp().take(&indices(x, &[2, 0, -1, 2], &[2, 2]), 0);
        "take one" all [3, 2], |x| x.take(&indices(x, &[1], &[1]), 1);
        "take by itself" all [3, 4], |x| x.take(&x.argmax(1), 1);
        "take_along" all [2, 4], |x| x.take_along(&indices(x, &[2, 0, -1, 2], &[2, 2]), 1);
        "take_along shared" all [2, 4], |x| x.take_along(&indices(x, &[2, 0, -1], &[1, 3]), 1);
        "sort" all [3, 4], |x| x.sort(1);
        "sort rows" all [5], |x| x.sort(0) * x;
        "top_k" all [2, 5], |x| x.top_k(2, -1).0;
        "median" all [2, 5], |x| x.median(1);
        "median of two" all [4, 2], |x| x.median(0) * x;
        "quantiles" all [2, 5], |x| x.quantiles(&[0.1, 0.7, 1.0], -1);
        "bincount_weighted" all [6], |x| indices(x, &[2, 0, 2, 1, 2, 0], &[6]).bincount_weighted(&x.exp(), 4);
        "scatter" all [5, 2], |x| x.scatter(&indices(x, &[1, -1, 1], &[3]), x.slice(0, ..3) * 2.0, 0);
        "scatter number" all [3, 4], |x| x.scatter(&indices(x, &[1, -1], &[2]), 0.5, 1);
        "scatter by itself" all [3, 4], |x| x.scatter(&x.argmin(1), x.select(1, 0).unsqueeze(1), 1);
        "scatter_add" all [5, 2], |x| x.scatter_add(&indices(x, &[1, -1, 1, 0], &[2, 2]), x.exp().slice(0, ..4).reshape(&[2, 2, 2]), 0);
        "scatter_add one" all [3, 4], |x| x.scatter_add(&indices(x, &[2], &[1]), x.select(1, 0).unsqueeze(1).exp(), 1);
        "scatter_add values" all [2, 3], |x| beside(x, &[2, 4]).scatter_add(&indices(x, &[1, 0, 1], &[3]), x.exp(), 1);
        "scatter_add by itself" all [3, 4], |x| x.scatter_add(&x.argmax(1), x.exp().slice(1, ..3), 1);
        "put_along" all [2, 4], |x| x.put_along(&indices(x, &[2, 0, -1, 2], &[2, 2]), x.slice(1, 1..3).exp(), 1);
        "add_along" all [3, 4], |x| x.add_along(&indices(x, &[2, 0, 2, 2, 1, 0], &[3, 2]), x.slice(1, 1..3).exp(), 1);
        "add_along rows" all [3, 4], |x| x.add_along(&x.argmax(0).unsqueeze(0), x.select(0, 1).unsqueeze(0), 0);
        "embedding" all [4, 2], |x| x.take(&indices(x, &[3, 3, 0], &[3]), 0).square();
        "cross_entropy" all [3, 4], |x| x.cross_entropy(&indices(x, &[1, 0, 3], &[3]));
        "attention" all [2, 3, 12], |x| attention(x);
    }
}

/// Attention of two heads, in f64 written down.
fn attention(x: &Array) -> Array {
    let attention = nn::Attention::new(x.device().unwrap(), nn::Key::new(3), 12, 2);
    let cast = |x: &Array| x.cast(Scalar::F64);
    let attention = kiln_array::Parameters::map(&attention, &mut |x: &Array| cast(x));
    attention.forward(x)
}
