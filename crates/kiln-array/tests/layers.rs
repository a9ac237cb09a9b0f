//! Attention, convolutions, embeddings, data and checkpoints against values in f64 that are worked
//! out apart.

use kiln_array::nn::{
    Attention, Batches, Conv2d, Embedding, GroupNorm, Key, Linear, SwiGlu, decode_attention, load,
    load_checkpoint, prefetch, save, save_checkpoint,
};
use kiln_array::optimizer::{AdamW, Lion, Optimizer, Sgd};
use kiln_array::{Array, Module, Pairs, Scalar, grad};
use kiln_runtime::Device;

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

/// Numbers without a pattern, in -1 to 1.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729 + 13) % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| x.into()).collect()
}

fn close(got: &Array, expected: &[f64], name: &str) {
    let got = got.to_vec::<f32>().unwrap();
    assert_eq!(got.len(), expected.len(), "{name}");
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let tolerance = 2e-5 * expected.abs().max(1.0);
        assert!((f64::from(got) - expected).abs() < tolerance, "{name}, {i}: {got}, expected {expected}");
    }
}

#[test]
fn convolutions_are_sums_over_windows() {
    let device = device();
    for (height, width, channels, outputs, size, stride, padding) in [
        (5, 7, 3, 4, 3, 1, 1),
        (6, 5, 1, 2, 3, 2, 1),
        (4, 4, 2, 3, 2, 2, 0),
        (3, 3, 2, 1, 1, 1, 0),
        (3, 5, 1, 2, 5, 3, 2),
    ] {
        let batch = 2;
        let mut layer =
            Conv2d::new(&device, Key::new(1), size, channels, outputs).stride(stride).padding(padding);
        let (pixels, weights, biases) = (
            numbers(batch * height * width * channels, 1),
            numbers(outputs * size * size * channels, 2),
            numbers(outputs, 3),
        );
        layer.windows = Linear {
            weight: Array::new(&device, &weights, &[outputs, size * size * channels]),
            bias: Some(Array::new(&device, &biases, &[outputs])),
        };
        let x = Array::new(&device, &pixels, &[batch, height, width, channels]);
        let y = layer.forward(&x);
        let [rows, columns] = [height, width].map(|extent| (extent + 2 * padding - size) / stride + 1);
        assert_eq!(y.shape(), [batch, rows, columns, outputs]);
        // The loss is a sum of results times numbers, whose gradients are sums too.
        let slopes = numbers(y.len(), 4);
        let of_y = Array::new(&device, &slopes, y.shape());
        let [of_x, of_weight] = grad(
            |[x, w]: &[Array; 2]| {
                let windows = Linear { weight: w.clone(), bias: layer.windows.bias.clone() };
                (Conv2d { windows, ..layer }.forward(x) * &of_y).sum()
            },
            &[x, layer.windows.weight.clone()],
        );
        let (p, w, g) = (wide(&pixels), wide(&weights), wide(&slopes));
        let (mut sums, mut dx, mut dw) = (vec![0.0; g.len()], vec![0.0; p.len()], vec![0.0; w.len()]);
        for at in 0..g.len() {
            let (o, c, r, b) = (
                at % outputs,
                at / outputs % columns,
                at / outputs / columns % rows,
                at / outputs / columns / rows,
            );
            sums[at] = f64::from(biases[o]);
            for k in 0..size * size * channels {
                let (i, j, channel) = (k / channels / size, k / channels % size, k % channels);
                let (row, column) =
                    ((r * stride + i).wrapping_sub(padding), (c * stride + j).wrapping_sub(padding));
                if row < height && column < width {
                    let (from, of) = (
                        ((b * height + row) * width + column) * channels + channel,
                        o * size * size * channels + k,
                    );
                    sums[at] += p[from] * w[of];
                    dx[from] += g[at] * w[of];
                    dw[of] += g[at] * p[from];
                }
            }
        }
        close(&y, &sums, "result");
        close(&of_x, &dx, "gradient of the images");
        close(&of_weight, &dw, "gradient of the weights");
    }
}

/// A layer of attention, in f64.
struct Attended {
    of_qkv: Vec<f64>,
    of_out: Vec<f64>,
    heads: usize,
    causal: bool,
}

impl Attended {
    fn of(layer: &Attention) -> Attended {
        let weights = |layer: &Linear| wide(&layer.weight.to_vec::<f32>().unwrap());
        let (of_qkv, of_out) = (weights(&layer.qkv), weights(&layer.out));
        Attended { of_qkv, of_out, heads: layer.heads, causal: layer.causal }
    }

    /// The results for one sequence.
    fn results(&self, x: &[f64], width: usize) -> Vec<f64> {
        let (length, deep) = (x.len() / width, width / self.heads);
        let linear = |row: &[f64], weight: &[f64]| -> Vec<f64> {
            weight.chunks(row.len()).map(|w| w.iter().zip(row).map(|(w, x)| w * x).sum()).collect()
        };
        let rows: Vec<Vec<f64>> = x.chunks(width).map(|row| linear(row, &self.of_qkv)).collect();
        let mut results = Vec::new();
        for l in 0..length {
            let mut joined = vec![0.0; width];
            for h in 0..self.heads {
                let part = |row: usize, which: usize| &rows[row][which * width + h * deep..][..deep];
                let seen = if self.causal { l + 1 } else { length };
                let score = |other: usize| {
                    let dot: f64 = part(l, 0).iter().zip(part(other, 1)).map(|(q, k)| q * k).sum();
                    (dot / (deep as f64).sqrt()).exp()
                };
                let scores: Vec<f64> = (0..seen).map(score).collect();
                let total: f64 = scores.iter().sum();
                for (other, score) in scores.iter().enumerate() {
                    for d in 0..deep {
                        joined[h * deep + d] += score / total * part(other, 2)[d];
                    }
                }
            }
            results.extend(linear(&joined, &self.of_out));
        }
        results
    }
}

/// A layer whose weights are large enough that places differ.
fn attention_layer(device: &Device, width: usize, heads: usize, causal: bool) -> Attention {
    let mut layer = Attention::new(device, Key::new(3), width, heads);
    layer.qkv.weight = Array::new(device, &numbers(3 * width * width, 8), &[3 * width, width]);
    layer.out.weight = Array::new(device, &numbers(width * width, 9), &[width, width]);
    if causal { layer.causal() } else { layer }
}

#[test]
fn attention_is_a_mean_by_weights() {
    let device = device();
    for (causal, heads, batch, length) in
        [(true, 2, 2, 5), (false, 3, 1, 4), (true, 1, 1, 1), (true, 2, 1, 130)]
    {
        let width = 6;
        let layer = attention_layer(&device, width, heads, causal);
        let given = numbers(batch * length * width, 5);
        let y = layer.forward(&Array::new(&device, &given, &[batch, length, width]));
        let by_hand = Attended::of(&layer);
        let sequences = wide(&given);
        let expected: Vec<f64> =
            sequences.chunks(length * width).flat_map(|x| by_hand.results(x, width)).collect();
        close(&y, &expected, "attention");
    }
}

#[test]
fn gradients_of_attention_are_those_of_small_differences() {
    let device = device();
    let width = 6;
    for (causal, heads, length) in [(true, 2, 5), (false, 3, 4), (true, 1, 1), (true, 1, 70), (false, 2, 67)]
    {
        let layer = attention_layer(&device, width, heads, causal);
        let (given, slopes) = (numbers(length * width, 5), numbers(length * width, 6));
        let [x, by] = [&given, &slopes].map(|of| Array::new(&device, of, &[1, length, width]));
        let of = grad(|x: &Array| (layer.forward(x) * &by).sum(), &x);
        let (by_hand, slopes) = (Attended::of(&layer), wide(&slopes));
        let loss = |x: &[f64]| -> f64 {
            by_hand.results(x, width).iter().zip(&slopes).map(|(y, slope)| y * slope).sum()
        };
        let mut x = wide(&given);
        let mut difference = |at: usize| {
            let (step, before) = (1e-5, x[at]);
            x[at] = before + step;
            let above = loss(&x);
            x[at] = before - step;
            let below = loss(&x);
            x[at] = before;
            (above - below) / (2.0 * step)
        };
        let expected: Vec<f64> = (0..length * width).map(&mut difference).collect();
        close(&of, &expected, "gradient of attention");
    }
}

#[test]
fn attention_has_second_gradients() {
    let device = device();
    let (width, length) = (4, 6);
    let layer = attention_layer(&device, width, 2, true);
    let [given, direction] = [5, 7].map(|seed| numbers(length * width, seed));
    let [x, r] = [&given, &direction].map(|of| Array::new(&device, of, &[1, length, width]));
    let slope = |x: &Array| grad(|x: &Array| layer.forward(x).square().sum(), x);
    let second = grad(|x: &Array| (slope(x) * &r).sum(), &x);
    // The gradient is a symmetric matrix's: its difference along a direction is the product.
    let step = 1e-3;
    let beside = |by: f64| wide(&slope(&(&x + &r * by)).to_vec::<f32>().unwrap());
    let (above, below) = (beside(step), beside(-step));
    let got = second.to_vec::<f32>().unwrap();
    for (at, (above, below)) in above.iter().zip(&below).enumerate() {
        let expected = (above - below) / (2.0 * step);
        let error = (f64::from(got[at]) - expected).abs();
        assert!(error < 2e-2 * expected.abs().max(1.0), "{at}: {}, expected {expected}", got[at]);
    }
}

#[test]
fn attention_of_bf16_has_the_gradients_of_f32() {
    let device = device();
    let (width, length) = (32, 40);
    let layer = Attention::new(&device, Key::new(3), width, 2).causal();
    let [x, by] = [5, 6].map(|seed| Array::new(&device, &numbers(length * width, seed), &[1, length, width]));
    let of = |dtype: Scalar| {
        let layer = layer.cast(dtype);
        let loss = |x: &Array| (layer.forward(&x.cast(dtype)).cast(Scalar::F32) * &by).sum();
        grad(loss, &x).to_vec::<f32>().unwrap()
    };
    let (narrow, full) = (of(Scalar::BF16), of(Scalar::F32));
    let largest = full.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    for (a, b) in narrow.iter().zip(&full) {
        assert!((a - b).abs() < 0.03 * largest, "{a}, expected {b} of up to {largest}");
    }
}

#[test]
fn attention_of_nothing_is_nothing() {
    let device = device();
    for dtype in [Scalar::F32, Scalar::F64] {
        let layer = Attention::new(&device, Key::new(1), 6, 2).causal().cast(dtype);
        for shape in [[2, 0, 6], [0, 3, 6]] {
            let y = layer.forward(&Array::zeros(&device, dtype, &shape));
            assert!(y.eval().is_ok() && y.shape() == shape && y.dtype() == dtype, "{y:?}");
        }
    }
}

#[test]
fn layers_name_shapes_that_they_do_not_take() {
    let device = device();
    let layer = Attention::new(&device, Key::new(1), 6, 4);
    let error = |x: &Array| x.error().unwrap().to_string();
    let x = Array::ones(&device, Scalar::F32, &[2, 3, 6]);
    let heads = error(&layer.forward(&x));
    assert!(heads.contains("`attention`: 4 heads do not divide a width of 6"), "{heads}");
    let axes = error(&layer.forward(&x.select(0, 0)));
    assert!(axes.contains("x has shape [3, 6] instead of [batch, length, width]"), "{axes}");
    let layer = Conv2d::new(&device, Key::new(1), 5, 6, 1).padding(0);
    let small = error(&layer.forward(&x.unsqueeze(0)));
    assert!(small.contains("`conv2d`: windows of 5 x 5"), "{small}");
}

#[test]
fn layers_without_products_are_right_in_narrow_floats() {
    let device = device();
    let x = Array::new(&device, &numbers(2 * 7 * 6, 3), &[2, 7, 6]);
    for dtype in [Scalar::BF16, Scalar::F16] {
        let narrow = x.cast(dtype);
        let norm = GroupNorm::new(&device, 3, 6);
        let turned = |x: &Array| {
            let heads = x.reshape(&[2, 7, 1, 6]);
            heads.rotary(&Array::arange(&device, 7), 100.0, Pairs::Halves).reshape(&[2, 7, 6])
        };
        for (name, got, exact) in [
            ("group_norm", norm.forward(&narrow), norm.forward(&narrow.cast(Scalar::F64))),
            ("rotary", turned(&narrow), turned(&narrow.cast(Scalar::F64))),
        ] {
            assert_eq!((got.dtype(), exact.dtype()), (dtype, Scalar::F64), "{name}");
            // One rounding of what was computed in f32.
            let unit = if dtype == Scalar::F16 { 1.0 / 2048.0 } else { 1.0 / 256.0 };
            let off = ((got - &exact).abs() / (exact.abs() + 1e-3)).max().item::<f64>().unwrap();
            assert!(off <= unit, "{name} of {dtype}: {off}");
        }
    }
    let layer = SwiGlu::new(&device, Key::new(5), 6, 10);
    let names: Vec<String> = layer.parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["gate.weight", "up.weight", "down.weight"]);
    let [gate, up, down] =
        [&layer.gate, &layer.up, &layer.down].map(|l| wide(&l.weight.to_vec::<f32>().unwrap()));
    let input = wide(&numbers(6, 8));
    let by = |w: &[f64], x: &[f64]| -> Vec<f64> {
        w.chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
    };
    let (g, u) = (by(&gate, &input), by(&up, &input));
    let hidden: Vec<f64> = g.iter().zip(&u).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
    let got = layer.forward(&Array::new(&device, &numbers(6, 8), &[1, 6]));
    close(&(got * 1e3), &by(&down, &hidden).iter().map(|y| y * 1e3).collect::<Vec<_>>(), "SwiGlu");
}

#[test]
fn gradients_of_embeddings_add_up() {
    let device = device();
    let table = Array::new(&device, &numbers(15, 1), &[5, 3]);
    // Entry 2 three times, once from the end; entries 1 and 4 never.
    let indices = Array::new(&device, &[2i32, 0, -3, 3, 2, 0], &[2, 3]);
    let slopes = numbers(18, 2);
    let by = Array::new(&device, &slopes, &[2, 3, 3]);
    let of = grad(|w: &Array| (Embedding { weight: w.clone() }.forward(&indices) * &by).sum(), &table);
    let mut expected = vec![0.0; 15];
    for (row, entry) in [2, 0, 2, 3, 2, 0].into_iter().enumerate() {
        (0..3).for_each(|c| expected[entry * 3 + c] += f64::from(slopes[row * 3 + c]));
    }
    close(&of, &expected, "gradient of the table");
}

#[test]
fn batches_are_orders_of_all_examples() {
    for count in [0, 1, 7, 100] {
        let mut all: Vec<usize> = Batches::new(count, 1).shuffled(Key::new(4)).flatten().collect();
        assert_eq!(all, Batches::new(count, 1).shuffled(Key::new(4)).flatten().collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..count).collect::<Vec<_>>());
    }
    assert_eq!(Batches::new(5, 0).count(), 0);
    assert_eq!(Batches::new(5, 6).count(), 0);
    // Each of 6 examples is first about as often.
    let mut first = [0; 6];
    for key in 0..6000 {
        let batch = Batches::new(6, 1).shuffled(Key::new(key)).next().unwrap();
        first[batch[0]] += 1;
    }
    assert!(first.iter().all(|count| (850..1150).contains(count)), "{first:?}");
}

#[test]
fn prefetching_ends_early_and_passes_panics_on() {
    let mut numbers = prefetch(1, 0..1_000_000_000usize);
    assert_eq!((numbers.next(), numbers.next()), (Some(0), Some(1)));
    drop(numbers);
    let mut failing = prefetch(0, (0..2).map(|i| if i == 1 { panic!("no more") } else { i }));
    assert_eq!(failing.next(), Some(0));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| failing.next()));
    assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"no more"));
}

/// Two steps, a checkpoint, two more; and these again from the checkpoint.
fn goes_on<O: Optimizer>(new: impl Fn() -> O, step: impl Fn(&mut O, &mut Linear)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let device = device();
    let (mut net, mut optimizer) = (Linear::new(&device, Key::new(1), 3, 2), new());
    let steps = |net: &mut Linear, optimizer: &mut O, count: usize| {
        (0..count).for_each(|_| step(optimizer, net));
        net.weight.to_vec::<f32>().unwrap()
    };
    steps(&mut net, &mut optimizer, 2);
    save_checkpoint(&net, &optimizer, &[("name", "x")], &path).unwrap();
    let after = steps(&mut net, &mut optimizer, 2);
    let (mut net, mut optimizer) = (Linear::new(&device, Key::new(2), 3, 2), new());
    let texts = load_checkpoint(&mut net, &mut optimizer, &path).unwrap();
    assert_eq!((texts.len(), texts["name"].as_str(), optimizer.steps()), (1, "x", 2));
    assert_eq!(steps(&mut net, &mut optimizer, 2), after);
}

fn slopes(net: &Linear) -> Linear {
    grad(|net: &Linear| (net.weight.sin() * 2.0).sum() + net.bias.as_ref().unwrap().square().sum(), net)
}

#[test]
fn all_optimizers_go_on_from_checkpoints() {
    goes_on(
        || AdamW::new(0.1),
        |optimizer, net| {
            let slopes = slopes(net);
            optimizer.step(net, slopes).unwrap()
        },
    );
    goes_on(
        || Lion::new(0.1),
        |optimizer, net| {
            let slopes = slopes(net);
            optimizer.step(net, slopes).unwrap()
        },
    );
    goes_on(
        || Sgd::new(0.1).momentum(0.9),
        |optimizer, net| {
            let slopes = slopes(net);
            optimizer.step(net, slopes).unwrap()
        },
    );
}

#[test]
fn what_is_no_checkpoint_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    let device = device();
    let (mut net, mut optimizer) = (Linear::new(&device, Key::new(1), 3, 2), Sgd::new(0.1));
    save(&net, &path).unwrap();
    let error = load_checkpoint(&mut net, &mut optimizer, &path).unwrap_err().to_string();
    assert!(error.ends_with("it is no checkpoint"), "{error}");
    let gradients = slopes(&net);
    optimizer.step(&mut net, gradients).unwrap();
    save_checkpoint(&net, &optimizer, &[], &path).unwrap();
    let error = load(&mut net, &path).unwrap_err().to_string();
    assert!(error.contains("`weight` is missing"), "{error}");
    let mut other = AdamW::new(0.1);
    let error = load_checkpoint(&mut net, &mut other, &path).unwrap_err().to_string();
    assert!(error.contains("`optimizer.1.weight` is missing"), "{error}");
    assert_eq!(other.steps(), 0);
}

#[test]
fn texts_that_would_be_lost_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    let (net, optimizer) = (Linear::new(&device(), Key::new(1), 3, 2), Sgd::new(0.1));
    for (texts, name) in [([("kiln.steps", "9"), ("a", "1")], "kiln.steps"), ([("a", "1"), ("a", "2")], "a")]
    {
        let error = save_checkpoint(&net, &optimizer, &texts, &path).unwrap_err().to_string();
        assert!(error.ends_with(&format!("there is a text named `{name}` already")), "{error}");
        assert!(!path.exists());
    }
}

/// Attention of one query of each sequence, in f64; heads share keys.
fn decoded(
    [q, k, v]: [&[f64]; 3],
    lengths: &[usize],
    [room, heads, key_heads, width]: [usize; 4],
) -> Vec<f64> {
    let mut out = Vec::new();
    for (b, &known) in lengths.iter().enumerate() {
        for head in 0..heads {
            let row = |key: usize| ((b * room + key) * key_heads + head * key_heads / heads) * width;
            let query = &q[(b * heads + head) * width..][..width];
            let score = |key: usize| {
                let products = query.iter().zip(&k[row(key)..]).map(|(a, b)| a * b);
                (products.sum::<f64>() / (width as f64).sqrt()).exp()
            };
            let weights: Vec<f64> = (0..known).map(score).collect();
            let sum: f64 = weights.iter().sum();
            let of = |c: usize| weights.iter().enumerate().map(|(key, w)| w * v[row(key) + c]).sum::<f64>();
            out.extend((0..width).map(|c| if known == 0 { 0.0 } else { of(c) / sum }));
        }
    }
    out
}

#[test]
fn decoding_attends_to_as_many_keys_as_a_sequence_has() {
    let device = device();
    for (lengths, [room, heads, key_heads, width]) in [
        (&[3usize, 0, 7][..], [7, 4, 2, 8]),
        (&[40], [64, 3, 3, 5]),
        (&[1, 1], [1, 6, 1, 16]),
        (&[0], [0, 2, 2, 4]),
    ] {
        let sequences = lengths.len();
        let counts = [sequences * heads * width, sequences * room * key_heads * width];
        let data = [numbers(counts[0], 1), numbers(counts[1], 2), numbers(counts[1], 3)];
        let q = Array::new(&device, &data[0], &[sequences, heads, width]);
        let cache = |data: &[f32]| Array::new(&device, data, &[sequences, room, key_heads, width]);
        let (k, v) = (cache(&data[1]), cache(&data[2]));
        let known: Vec<i32> = lengths.iter().map(|&known| known as i32).collect();
        let known = Array::new(&device, &known, &[sequences]);
        let y = decode_attention(&q, &k, &v, &known);
        let [q64, k64, v64] = [0, 1, 2].map(|i| wide(&data[i]));
        let sizes = [room, heads, key_heads, width];
        close(&y, &decoded([&q64, &k64, &v64], lengths, sizes), "decoding");
        // In f64 it is written down.
        let of_f64 = |x: &Array| x.cast(Scalar::F64);
        let y = decode_attention(&of_f64(&q), &of_f64(&k), &of_f64(&v), &known).cast(Scalar::F32);
        close(&y, &decoded([&q64, &k64, &v64], lengths, sizes), "decoding in f64");
    }
}

#[test]
fn gradients_of_decoding_are_those_of_small_differences() {
    let device = device();
    let (lengths, sizes) = ([3usize, 2], [4usize, 2, 1, 3]);
    let data = [numbers(12, 1), numbers(24, 2), numbers(24, 3)];
    let q = Array::new(&device, &data[0], &[2, 2, 3]);
    let (k, v) = (Array::new(&device, &data[1], &[2, 4, 1, 3]), Array::new(&device, &data[2], &[2, 4, 1, 3]));
    let known = Array::new(&device, &[3, 2], &[2]);
    let loss = |of: &(Array, Array, Array)| decode_attention(&of.0, &of.1, &of.2, &known).square().sum();
    let (of_q, of_k, of_v) = grad(loss, &(q, k, v));
    let wide = [0, 1, 2].map(|i| wide(&data[i]));
    for (which, of) in [of_q, of_k, of_v].iter().enumerate() {
        let slope = |at: usize| {
            let [low, high] = [-1e-5, 1e-5].map(|by| {
                let mut moved = wide.clone();
                moved[which][at] += by;
                let y = decoded([&moved[0], &moved[1], &moved[2]], &lengths, sizes);
                y.iter().map(|y| y * y).sum::<f64>()
            });
            (high - low) / 2e-5
        };
        let expected: Vec<f64> = (0..wide[which].len()).map(slope).collect();
        close(of, &expected, "gradient of decoding");
    }
}

#[test]
fn decoding_refuses_other_shapes_by_name() {
    let device = device();
    let of = |shape: &[usize]| Array::zeros(&device, Scalar::F32, shape);
    let lengths = Array::new(&device, &[1, 1], &[2]);
    for (q, k, lengths, named) in [
        (&[2, 4, 8][..], &[2, 5, 3, 8][..], &lengths, "3 heads of keys do not divide 4 heads"),
        (&[2, 4, 8], &[2, 5, 2, 4], &lengths, "k of shape [2, 5, 2, 4]"),
        (&[2, 4, 8], &[2, 5, 8], &lengths, "instead of [sequences, heads, width]"),
        (&[2, 4, 8], &[2, 5, 2, 8], &of(&[2]), "one integer for each sequence"),
    ] {
        let (q, k) = (of(q), of(k));
        let error = decode_attention(&q, &k, &k, lengths).to_vec::<f32>().unwrap_err().to_string();
        assert!(error.contains(named) && error.contains("decode_attention"), "{error}");
    }
}
