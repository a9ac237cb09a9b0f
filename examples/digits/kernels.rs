//! Every step of training, as a kernel. Matrices are row-major `[rows, columns]`; a transposed
//! operand is a transposed view.

use kiln::prelude::*;

/// The tile of a matrix product that one program computes, and the depth of one step.
pub const TILE: (usize, usize, usize) = (32, 32, 32);

/// y = x w + bias, then max(y, 0) if `relu`.
#[kernel]
pub fn linear(
    x: &Tensor<f32, 2>,
    w: &Tensor<f32, 2>,
    bias: &Tensor<f32, 1>,
    y: &mut Tensor<f32, 2>,
    relu: bool,
) {
    let (i, j) = (program_id(0), program_id(1));
    let (bm, bn, _) = TILE;
    let sum = product(x, w, i, j) + bias.tile(j * bn, bn).load(0.0).reshape((1, bn));
    let out = if relu { sum.maximum(0.0) } else { sum };
    y.tile((i * bm, j * bn), (bm, bn)).store(out);
}

/// c = a b: the gradient of weights, with a the transposed input.
#[kernel]
pub fn matmul(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    let (i, j) = (program_id(0), program_id(1));
    let (bm, bn, _) = TILE;
    c.tile((i * bm, j * bn), (bm, bn)).store(product(a, b, i, j));
}

/// dx = (dy wᵀ) where the activation h was positive, else 0: the gradient through a layer and the
/// ReLU before it.
#[kernel]
pub fn linear_backward(
    dy: &Tensor<f32, 2>,
    wt: &Tensor<f32, 2>,
    h: &Tensor<f32, 2>,
    dx: &mut Tensor<f32, 2>,
) {
    let (i, j) = (program_id(0), program_id(1));
    let (bm, bn, _) = TILE;
    let (at, shape) = ((i * bm, j * bn), (bm, bn));
    let active = h.tile(at, shape).load(0.0) > 0.0;
    dx.tile(at, shape).store(select(active, product(dy, wt, i, j), 0.0));
}

/// Tile (i, j) of a b.
#[device]
fn product(a: View<f32, 2>, b: View<f32, 2>, i: Idx, j: Idx) -> Tile<f32> {
    let (bm, bn, bk) = TILE;
    let mut sum = zeros::<f32>((bm, bn));
    for k in (0..a.extent(1)).step_by(bk) {
        let (x, y) = (a.tile((i * bm, k), (bm, bk)).load(0.0), b.tile((k, j * bn), (bk, bn)).load(0.0));
        sum = dot_acc(x, y, sum);
    }
    sum
}

/// A row a program: the loss -log softmax(logits)[label], its gradient over the batch's mean, and
/// whether the largest logit is the label's. `classes` covers a row.
#[kernel]
pub fn cross_entropy(
    logits: &Tensor<f32, 2>,
    labels: &Tensor<i32, 1>,
    gradient: &mut Tensor<f32, 2>,
    loss: &mut Tensor<f32, 1>,
    correct: &mut Tensor<i32, 1>,
    classes: usize,
) {
    let row = program_id(0);
    let label = labels.tile(row, 1).load(0);
    let z = logits.row(row).tile(0, classes).load(f32::NEG_INFINITY);
    let shifted = z - z.reduce_max();
    let e = shifted.exp();
    let total = e.sum();
    let is_label = iota::<i32>(classes) == label;
    let batch = logits.extent(0).cast::<f32>();
    gradient.row(row).tile(0, classes).store((e / total - select(is_label, val(1.0f32), 0.0)) / batch);
    loss.tile(row, 1).store((total.log() - select(is_label, shifted, 0.0).sum()).reshape(1));
    let of_label = select(is_label, z, f32::NEG_INFINITY).reduce_max();
    correct.tile(row, 1).store((of_label == z.reduce_max()).cast::<i32>().reshape(1));
}

/// The sum of each column: the gradient of a bias. `rows` covers a column.
#[kernel]
pub fn column_sums(x: &Tensor<f32, 2>, sums: &mut Tensor<f32, 1>, rows: usize) {
    let (_, bn, _) = TILE;
    let j = program_id(0);
    sums.tile(j * bn, bn).store(x.tile((0, j * bn), (rows, bn)).load(0.0).sum_axis(0));
}

/// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019), with the usual
/// betas and epsilon. `rate` is the learning rate, `correct1` and `correct2` are 1 - betaᵗ.
#[kernel]
pub fn adamw(
    parameter: &mut Tensor<f32, 1>,
    gradient: &Tensor<f32, 1>,
    momentum: &mut Tensor<f32, 1>,
    variance: &mut Tensor<f32, 1>,
    rate: Val<f32>,
    decay: Val<f32>,
    correct1: Val<f32>,
    correct2: Val<f32>,
) {
    const BLOCK: usize = 256;
    let at = program_id(0) * BLOCK;
    let g = gradient.tile(at, BLOCK).load(0.0);
    let m = momentum.tile(at, BLOCK).load(0.0) * 0.9 + g * 0.1;
    let v = variance.tile(at, BLOCK).load(0.0) * 0.999 + g * g * 0.001;
    let p = parameter.tile(at, BLOCK).load(0.0);
    let step = (m / correct1) / ((v / correct2).sqrt() + 1e-8);
    parameter.tile(at, BLOCK).store(p - rate * (step + decay * p));
    momentum.tile(at, BLOCK).store(m);
    variance.tile(at, BLOCK).store(v);
}
