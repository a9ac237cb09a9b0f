//! One token through a model of the Llama architecture, as kernels over tiles.
//!
//! Decoding multiplies matrices by one vector: each weight is read once and used once, so that the
//! bytes of the weights bound the speed. They stay as few as in the file. A program computes some
//! outputs; it takes the weights of 32 or 64 inputs at a time, unpacks them in a tile, and adds
//! their products to its sums. What comes before a product (a norm, a gate) and after it (a
//! residual) is part of the same kernel. All kernels take the vectors of some tokens at once, as
//! rows of a matrix: one where a token is chosen, several where a text is read.
//!
//! ```text
//!  embed ─▶ x ─▶ norm · Wqkv ─▶ remember ─▶ attend ─▶ · Wo + x ─▶ norm · Wgate,up ─▶ gate ─┐
//!           ▲                                                              each layer     │
//!           └─────────────────────────────── · Wdown + x ◀───────────────────────────────┘
//!  x ─▶ norm · W ─▶ likeliest of each part ─▶ choose ─▶ the next token
//! ```

use kiln::prelude::*;

/// What a product is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, KernelConst)]
pub struct Form {
    /// Tokens: vectors that are multiplied.
    pub rows: usize,
    /// Outputs of a program: the last extent of the weights.
    pub outputs: usize,
    /// Inputs that share a scale.
    pub group: usize,
    /// The length of the vector.
    pub inputs: usize,
    /// What happens to the vector first.
    pub input: Input,
    /// Whether the products are added to what is in the output.
    pub adds: bool,
    /// Whether a group is multiplied as a matrix, which suits a device whose tiles lie in caches.
    /// Where they lie in registers, each weight has a sum of its own until the end, for each row.
    pub by_dot: bool,
}

/// What happens to a vector before it is multiplied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, KernelConst)]
pub enum Input {
    /// Nothing.
    Plain,
    /// x / √(mean(x²) + ε) · gain (Zhang and Sennrich, "Root mean square layer normalization",
    /// 2019).
    Normalized,
    /// silu(x₁) · x₂ of the two halves (Shazeer, "GLU variants improve transformer", 2020).
    Gated,
}

/// y = W x for weights of 4 bits: q · scale + minimum. Of each byte the low half belongs to a group
/// of 32 inputs, the high half to the next group.
#[kernel(contract)]
pub fn product_q4(
    x: &Tensor<f32, 2>,
    gain: &Tensor<f32, 1>,
    quants: &Tensor<u8, 3>,
    scales: &Tensor<f16, 3>,
    minima: &Tensor<f16, 3>,
    y: &mut Tensor<f32, 2>,
    epsilon: Val<f32>,
    form: Form,
) {
    let Form { outputs, group, .. } = form;
    let panel = program_id(0);
    let (quants, scales, minima) = (quants.row(panel), scales.row(panel), minima.row(panel));
    let mut sums = no_sums(form);
    for pair in range(0, quants.extent(0) / group as i64) {
        let halves = unpacked(quants.tile((pair * group, 0), (group, outputs)).load(0));
        for half in 0..2 {
            let block = pair * 2 + half as i64;
            let scale = scales.row(block).load(outputs, 0.0).cast::<f32>();
            sums = add_products(sums, input(x, gain, block * group, group, form), halves[half], scale, form);
        }
    }
    // Each minimum is multiplied by the sum of its group's inputs.
    let groups = form.inputs.div_ceil(2 * group) * 2;
    let inputs = input(x, gain, val(0), groups * group, form).reshape((form.rows, groups, group)).sum_axis(2);
    let minima = minima.tile((0, 0), (groups, outputs)).load(0.0).cast::<f32>();
    finish(sums, times(inputs, minima, form.by_dot), x, y, epsilon, form);
}

/// The low and the high halves of bytes. Floats are exact here, and the vector units of all devices
/// have them; few have bytes.
#[device]
fn unpacked(bytes: Tile<u8>) -> [Tile<f32>; 2] {
    let bytes = bytes.cast::<f32>();
    let high = (bytes * 0.0625).floor();
    [high.fma(-16.0, bytes), high]
}

/// y = W x for weights of 8 bits: q · scale.
#[kernel(contract)]
pub fn product_q8<S: Float>(
    x: &Tensor<f32, 2>,
    gain: &Tensor<f32, 1>,
    quants: &Tensor<i8, 3>,
    scales: &Tensor<S, 3>,
    y: &mut Tensor<f32, 2>,
    epsilon: Val<f32>,
    form: Form,
) {
    let Form { outputs, group, .. } = form;
    let panel = program_id(0);
    let (quants, scales) = (quants.row(panel), scales.row(panel));
    let mut sums = no_sums(form);
    for block in range(0, scales.extent(0)) {
        let x = input(x, gain, block * group, group, form);
        let weights = quants.tile((block * group, 0), (group, outputs)).load(0).cast::<f32>();
        let scale = scales.row(block).load(outputs, 0).cast::<f32>();
        sums = add_products(sums, x, weights, scale, form);
    }
    finish(sums, zeros::<f32>((form.rows, outputs)), x, y, epsilon, form);
}

/// y = W x for weights as they are.
#[kernel(contract)]
pub fn product_plain<W: Float>(
    x: &Tensor<f32, 2>,
    gain: &Tensor<f32, 1>,
    weights: &Tensor<W, 3>,
    y: &mut Tensor<f32, 2>,
    epsilon: Val<f32>,
    form: Form,
) {
    let Form { outputs, group, .. } = form;
    let weights = weights.row(program_id(0));
    let mut sums = no_sums(form);
    for first in range_step(0, weights.extent(0), group) {
        let x = input(x, gain, first, group, form);
        let weights = weights.tile((first, 0), (group, outputs)).load(0).cast::<f32>();
        sums = add_products(sums, x, weights, full::<f32>(outputs, 1.0), form);
    }
    finish(sums, zeros::<f32>((form.rows, outputs)), x, y, epsilon, form);
}

#[device]
fn no_sums(form: Form) -> Tile<f32> {
    let Form { rows, group, outputs, by_dot, .. } = form;
    match (by_dot, rows) {
        (true, _) => zeros::<f32>((rows, outputs)),
        (false, 1) => zeros::<f32>((group, outputs)),
        (false, _) => zeros::<f32>((rows, group, outputs)),
    }
}

/// Adds the products of a group of inputs with weights that have a scale for each output.
#[device]
fn add_products(
    sums: Tile<f32>,
    x: Tile<f32>,
    weights: Tile<f32>,
    scale: Tile<f32>,
    form: Form,
) -> Tile<f32> {
    if form.by_dot {
        dot(x, weights).fma(scale.expand(0), sums)
    } else if form.rows > 1 {
        (weights * scale.expand(0)).expand(0).fma(x.expand(2), sums)
    } else {
        (weights * scale.expand(0)).fma(x.transpose(), sums)
    }
}

/// So many inputs from one on, but for the factor of a norm, which `finish` multiplies by.
#[device]
fn input(x: View<f32, 2>, gain: View<f32, 1>, at: Idx, len: usize, form: Form) -> Tile<f32> {
    let part = |at: Idx| x.tile((0, at), (form.rows, len)).load(0.0);
    let first = part(at);
    match form.input {
        Input::Plain => first,
        Input::Normalized => first * gain.tile(at, len).load(0.0).expand(0),
        Input::Gated => first * first.sigmoid() * part(at + form.inputs as i64),
    }
}

/// Stores what a program has summed, and the rest of it.
#[device]
fn finish(
    sums: Tile<f32>,
    rest: Tile<f32>,
    x: View<f32, 2>,
    y: ViewMut<f32, 2>,
    epsilon: Val<f32>,
    form: Form,
) {
    let Form { rows, outputs, inputs, .. } = form;
    let mut result = match (form.by_dot, rows) {
        (true, _) => sums + rest,
        (false, 1) => sums.sum_keep(0) + rest,
        (false, _) => sums.sum_axis(1) + rest,
    };
    if form.input == Input::Normalized {
        let all = x.load((rows, inputs), 0.0);
        result *= ((all * all).sum_keep(1) / inputs as f32 + epsilon).rsqrt();
    }
    let own = y.tile((0, program_id(0) * outputs), (rows, outputs));
    own.store(if form.adds { own.load(0.0) + result } else { result });
}

/// x = the embeddings of the tokens from the present place on: columns of weights of 4 bits, a
/// group of one a program.
#[kernel]
pub fn embed_q4(
    quants: &Tensor<u8, 3>,
    scales: &Tensor<f16, 3>,
    minima: &Tensor<f16, 3>,
    tokens: &Tensor<i32, 1>,
    place: &Tensor<i32, 1>,
    x: &mut Tensor<f32, 2>,
    group: usize,
) {
    let (row, block) = (program_id(1), program_id(0));
    let token = tokens.get(place.get(0).cast::<i64>() + row).cast::<i64>();
    let (panel, column) = (token / quants.extent(2), token % quants.extent(2));
    let packed =
        quants.row(panel).tile((block / 2 * group as i64, column), (group, 1)).load(0).reshape(group);
    let [low, high] = unpacked(packed);
    let weights = select(block % 2 == 0, low, high);
    let [scale, minimum] = [scales, minima].map(|v| v.row(panel).get((block, column)).cast::<f32>());
    x.row(row).tile(block * group, group).store(weights * scale + minimum);
}

/// As `embed_q4`, of weights of 8 bits.
#[kernel]
pub fn embed_q8<S: Float>(
    quants: &Tensor<i8, 3>,
    scales: &Tensor<S, 3>,
    tokens: &Tensor<i32, 1>,
    place: &Tensor<i32, 1>,
    x: &mut Tensor<f32, 2>,
    group: usize,
) {
    let (row, block) = (program_id(1), program_id(0));
    let token = tokens.get(place.get(0).cast::<i64>() + row).cast::<i64>();
    let (panel, column) = (token / quants.extent(2), token % quants.extent(2));
    let weights = quants.row(panel).tile((block * group, column), (group, 1)).load(0).reshape(group);
    let scale = scales.row(panel).get((block, column)).cast::<f32>();
    x.row(row).tile(block * group, group).store(weights.cast::<f32>() * scale);
}

/// As `embed_q4`, of weights as they are.
#[kernel]
pub fn embed_plain<W: Float>(
    weights: &Tensor<W, 3>,
    tokens: &Tensor<i32, 1>,
    place: &Tensor<i32, 1>,
    x: &mut Tensor<f32, 2>,
    group: usize,
) {
    let (row, block) = (program_id(1), program_id(0));
    let token = tokens.get(place.get(0).cast::<i64>() + row).cast::<i64>();
    let (panel, column) = (token / weights.extent(2), token % weights.extent(2));
    let weights = weights.row(panel).tile((block * group, column), (group, 1)).load(0).reshape(group);
    x.row(row).tile(block * group, group).store(weights.cast::<f32>());
}

/// What attention is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, KernelConst)]
pub struct Heads {
    /// Tokens.
    pub rows: usize,
    /// Heads of queries, and how many of them share one of keys and values.
    pub count: usize,
    pub shared: usize,
    /// The width of a head.
    pub width: usize,
    /// Keys of a turn.
    pub keys: usize,
    /// As [`Form::by_dot`].
    pub by_dot: bool,
}

/// A head of `qkv` with its pairs of neighbors rotated by the angles of the places from one on (Su
/// et al., "RoFormer", 2021). `angles` are cosines, then sines: place by pair.
#[device]
pub fn rotated(
    qkv: View<f32, 2>,
    (row, head): (Idx, Idx),
    angles: View<f32, 3>,
    place: Idx,
    heads: Heads,
) -> Tile<f32> {
    let Heads { rows, width, .. } = heads;
    let pairs = qkv.tile((row, head * width), (rows, width)).load(0.0).reshape((rows, width / 2, 2));
    let (even, odd) = pairs.split();
    let [cosine, sine] = [0, 1].map(|which| angles.row(which).tile((place, 0), (rows, width / 2)).load(0.0));
    (even * cosine - odd * sine).interleave(even * sine + odd * cosine)
}

/// Appends the keys and the values of a head (a program each) to its cache. Keys are columns, so
/// that products with them run along memory.
#[kernel]
pub fn remember(
    qkv: &Tensor<f32, 2>,
    angles: &Tensor<f32, 3>,
    place: &Tensor<i32, 1>,
    keys: &mut Tensor<f32, 3>,
    values: &mut Tensor<f32, 3>,
    heads: Heads,
) {
    let Heads { rows, count, shared, width, .. } = heads;
    let (head, place) = (program_id(0), place.get(0).cast::<i64>());
    let key = rotated(qkv, (val(0), head + count as i64), angles, place, heads);
    let first = (head + (count + count / shared) as i64) * width;
    let value = qkv.tile((0, first), (rows, width)).load(0.0);
    keys.row(head).tile((0, place), (width, rows)).store(key.transpose());
    values.row(head).tile((place, 0), (rows, width)).store(value);
}

/// out = softmax(q K / √width) V of a head (a program each), for each token over itself and all
/// that came before. Keys pass by some at a time; what was summed is rescaled when a greater score
/// comes, as in `examples/attention`.
#[kernel(contract)]
pub fn attend(
    qkv: &Tensor<f32, 2>,
    angles: &Tensor<f32, 3>,
    place: &Tensor<i32, 1>,
    keys: &Tensor<f32, 3>,
    values: &Tensor<f32, 3>,
    out: &mut Tensor<f32, 2>,
    heads: Heads,
) {
    let Heads { shared, width, rows, .. } = heads;
    let (head, place) = (program_id(0), place.get(0).cast::<i64>());
    let query = rotated(qkv, (val(0), head), angles, place, heads) * (1.0 / (width as f32).sqrt());
    let (keys, values) = (keys.row(head / shared as i64), values.row(head / shared as i64));
    let (result, sum) = attention(query, keys, values, place, heads);
    out.tile((0, head * width), (rows, width)).store(result / sum);
}

/// The sum of weighted values of a head, whose first query is at a place, and that of the weights.
#[device]
pub fn attention(
    query: Tile<f32>,
    keys: View<f32, 2>,
    values: View<f32, 2>,
    place: Idx,
    heads: Heads,
) -> (Tile<f32>, Tile<f32>) {
    let Heads { rows, width, keys: step, by_dot, .. } = heads;
    let mut greatest = full::<f32>((rows, 1), f32::MIN);
    let mut sum = zeros::<f32>((rows, 1));
    let mut result = zeros::<f32>((rows, width));
    for first in range_step(0, place + rows as i64, step) {
        let scores = times(query, keys.tile((0, first), (width, step)).load(0.0), by_dot);
        let known = (iota::<i64>(step) + first).expand(0).le((iota::<i64>(rows) + place).expand(1));
        let scores = select(known, scores, f32::NEG_INFINITY);
        let now = greatest.maximum(scores.max_keep(1));
        let weights = (scores - now).exp();
        let correction = (greatest - now).exp();
        sum = sum * correction + weights.sum_keep(1);
        result =
            result * correction + times(weights, values.tile((first, 0), (step, width)).load(0.0), by_dot);
        greatest = now;
    }
    (result, sum)
}

/// Rows times a matrix.
#[device]
fn times(x: Tile<f32>, matrix: Tile<f32>, by_dot: bool) -> Tile<f32> {
    match (by_dot, x.shape()[0]) {
        (true, _) => dot(x, matrix),
        (false, 1) => (x.transpose() * matrix).sum_keep(0),
        (false, _) => (x.expand(2) * matrix.expand(0)).sum_axis(1),
    }
}

/// The likeliest token of each part of the logits, a program each. With a temperature it is a
/// random one: noise of Gumbel's distribution makes the greatest logit each with its probability.
#[kernel]
pub fn likeliest(
    logits: &Tensor<f32, 2>,
    place: &Tensor<i32, 1>,
    best: &mut Tensor<f32, 1>,
    token: &mut Tensor<i32, 1>,
    temperature: Val<f32>,
    seed: Val<u64>,
    part: usize,
) {
    let (greatest, at, first) = likeliest_of(logits, place, val(0), temperature, seed, part);
    let part = program_id(0);
    best.tile(part, 1).store(greatest.reshape(1));
    token.tile(part, 1).store((at + first).cast::<i32>().reshape(1));
}

/// The greatest logit of a program's part of a row, with noise; its place in the part, and the
/// part's first token.
#[device]
pub fn likeliest_of(
    logits: View<f32, 2>,
    places: View<i32, 1>,
    row: Idx,
    temperature: Val<f32>,
    seed: Val<u64>,
    part: usize,
) -> (Val<f32>, Idx, Idx) {
    let first = program_id(0) * part;
    let index = iota::<i64>(part) + first;
    let offsets = index + places.get(row).cast::<i64>() * logits.extent(1);
    // Neither 0 nor 1, of which no noise is finite.
    let uniform = rand(seed, offsets).clamp(2.98e-8, 0.99999994);
    let noise = -(-uniform.log()).log();
    let scores = logits.row(row).tile(first, part).load(f32::NEG_INFINITY) + noise * temperature;
    let (greatest, at) = scores.max_with_index(0);
    (greatest, at, first)
}

/// Appends the likeliest token of all parts, unless the token at that place is known, and goes to
/// the next place. `place` is the present place and the number of tokens that are known.
#[kernel]
pub fn choose(
    best: &Tensor<f32, 1>,
    token: &Tensor<i32, 1>,
    tokens: &mut Tensor<i32, 1>,
    place: &mut Tensor<i32, 1>,
    parts: usize,
) {
    let (next, known) = (place.get(0).cast::<i64>() + 1, place.get(1).cast::<i64>());
    let chosen = token.get(best.load(parts, f32::NEG_INFINITY).argmax());
    if next >= known {
        tokens.tile(next, 1).store(chosen.reshape(1));
    }
    place.tile(0, 1).store(next.cast::<i32>().reshape(1));
}

/// Goes to a later place, where the token is known.
#[kernel]
pub fn advance(place: &mut Tensor<i32, 1>, by: Val<i32>) {
    let own = place.tile(0, 1);
    own.store(own.load(0) + by);
}
