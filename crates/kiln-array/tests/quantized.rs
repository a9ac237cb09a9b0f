//! Layers with weights of 4 and 8 bits against products of their expanded weights in f64.

use half::f16;
use kiln_array::nn::{Key, Linear, QuantizedLinear};
use kiln_array::{Array, Module, Scalar, explain, grad};
use kiln_files::Gguf;
use kiln_fuzz::GpuCode;
use kiln_runtime::{Device, DiskCache};

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

fn wide(x: &Array) -> Vec<f64> {
    x.cast(Scalar::F64).to_vec().unwrap_or_else(|error| panic!("{error}"))
}

/// x Wᵀ and g W of the weights that a layer says it has.
fn by_hand(layer: &QuantizedLinear, x: &Array, g: &Array) -> [Vec<f64>; 2] {
    let weight = layer.weight();
    let [outputs, inputs] = [0, 1].map(|axis| weight.shape()[axis]);
    let (w, x, g) = (wide(&weight), wide(x), wide(g));
    let y = x.chunks(inputs).flat_map(|x| {
        let row = |w: &[f64]| x.iter().zip(w).map(|(x, w)| x * w).sum();
        w.chunks(inputs).map(row).collect::<Vec<f64>>()
    });
    let of_x = g.chunks(outputs).flat_map(|g| {
        (0..inputs)
            .map(|k| g.iter().enumerate().map(|(n, g)| g * w[n * inputs + k]).sum())
            .collect::<Vec<f64>>()
    });
    [y.collect(), of_x.collect()]
}

fn close(got: &Array, expected: &[f64], relative: f64, what: &str) {
    let largest = expected.iter().fold(1e-3, |most: f64, y| most.max(y.abs()));
    let got = wide(got);
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= relative * largest, "{what}, {i}: {got}, expected {expected}");
    }
}

fn check(device: &Device, sizes: &[[usize; 4]]) {
    for &[rows, inputs, outputs, group] in sizes {
        let layer = Linear::new(device, Key::new(3), inputs, outputs);
        for quantized in [QuantizedLinear::int8(&layer, group), QuantizedLinear::int4(&layer, group)] {
            let quantized = QuantizedLinear { bias: None, ..quantized };
            for (dtype, relative) in [
                (Scalar::F32, 1e-5),
                (Scalar::BF16, 1.0 / 100.0),
                (Scalar::F16, 1.0 / 800.0),
                (Scalar::F64, 1e-6),
            ] {
                let x = Key::new(5).normal(device, &[rows, inputs]).cast(dtype);
                let g = Key::new(6).normal(device, &[rows, outputs]).cast(dtype);
                let what = format!(
                    "{rows}x{inputs}x{outputs} by {group} of {dtype}, {:?}",
                    quantized.quants.dtype()
                );
                let y = quantized.forward(&x);
                assert_eq!((y.dtype(), y.shape()), (dtype, &[rows, outputs][..]), "{what}");
                let of_x = grad(|x: &Array| (quantized.forward(x) * &g).sum(), &x);
                let [expected, of_x_expected] = by_hand(&quantized, &x, &g);
                close(&y, &expected, relative, &what);
                close(&of_x, &of_x_expected, relative, &format!("gradient of {what}"));
            }
        }
    }
}

#[test]
fn products_are_those_of_the_expanded_weights() {
    check(
        &device(),
        &[[1, 64, 7, 16], [3, 96, 65, 32], [17, 256, 130, 128], [70, 32, 64, 32], [2, 256, 3, 256]],
    );
}

#[test]
fn products_are_right_as_code_for_gpus() {
    let backend = GpuCode::named(GpuCode::NAME).unwrap();
    check(&Device::with_backend(Box::new(backend), DiskCache::none()), &[[3, 64, 70, 32]]);
}

#[test]
fn weights_are_the_nearest() {
    let device = device();
    let layer = Linear::new(&device, Key::new(9), 64, 5);
    let exact = wide(&layer.weight);
    for (quantized, steps) in
        [(QuantizedLinear::int8(&layer, 16), 254.0), (QuantizedLinear::int4(&layer, 16), 15.0)]
    {
        let near = wide(&quantized.weight());
        for (group, near) in exact.chunks(16).zip(near.chunks(16)) {
            let most = group.iter().fold(0.0, |most: f64, w| most.max(w.abs()));
            let (least, greatest) = if steps == 15.0 {
                let of = |f: fn(f64, f64) -> f64| group.iter().copied().reduce(f).unwrap();
                (of(f64::min), of(f64::max))
            } else {
                (-most, most)
            };
            let half = (greatest - least) / steps / 2.0;
            for (w, near) in group.iter().zip(near) {
                assert!(
                    (w - near).abs() <= half * 1.0001 + 1e-7,
                    "{w} became {near}, steps of {}",
                    2.0 * half
                );
            }
        }
    }
    // A group of equal weights, zeros among them, stays as it is.
    for value in [0.0f32, -0.25, 3.0] {
        let flat = Linear { weight: Array::full(&device, value, &[2, 32]), bias: None };
        for quantized in [QuantizedLinear::int8(&flat, 32), QuantizedLinear::int4(&flat, 32)] {
            assert!(wide(&quantized.weight()).iter().all(|w| (w - f64::from(value)).abs() < 1e-6));
        }
    }
}

#[test]
fn weights_are_not_expanded_in_memory() {
    let device = device();
    let layer = QuantizedLinear::int4(&Linear::new(&device, Key::new(1), 256, 512), 32);
    kiln_array::eval(&[&layer.quants, &layer.scales, layer.minima.as_ref().unwrap()]).unwrap();
    let x = Key::new(2).normal(&device, &[1, 256]);
    x.eval().unwrap();
    let plan = explain(&[&layer.forward(&x)]).unwrap().to_string();
    assert!(plan.contains("u8 [512, 128]") && !plan.contains("[512, 256]"), "{plan}");
}

/// A GGUF file of one matrix `w` of blocks, by the format's description.
fn gguf(outputs: u64, inputs: u64, encoding: u32, blocks: &[u8]) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3u32.to_le_bytes());
    bytes.extend([1u64, 0].iter().flat_map(|count| count.to_le_bytes()));
    bytes.extend(1u64.to_le_bytes());
    bytes.push(b'w');
    bytes.extend(2u32.to_le_bytes());
    bytes.extend([inputs, outputs].iter().flat_map(|extent| extent.to_le_bytes()));
    bytes.extend(encoding.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend(blocks);
    bytes
}

#[test]
fn weights_of_gguf_files_stay_as_they_are() {
    let device = device();
    let folder = tempfile::tempdir().unwrap();
    let half = |x: f32| f16::from_f32(x).to_le_bytes();
    let mut random = fastrand::Rng::with_seed(8);
    // Encoding, bytes of a block and weights of it, and where its halves are.
    for (name, encoding, block, each, halves) in [
        ("Q4_0", 2, 18, 32, &[0][..]),
        ("Q4_1", 3, 20, 32, &[0, 2]),
        ("Q8_0", 8, 34, 32, &[0]),
        ("Q6_K", 14, 210, 256, &[208]),
    ] {
        let (outputs, inputs) = (5, 512);
        let mut blocks: Vec<u8> = (0..outputs * inputs / each * block).map(|_| random.u8(..)).collect();
        for block in blocks.chunks_mut(block) {
            for &at in halves {
                block[at..at + 2].copy_from_slice(&half(random.f32() - 0.5));
            }
        }
        let path = folder.path().join(name);
        std::fs::write(&path, gguf(outputs as u64, inputs as u64, encoding, &blocks)).unwrap();
        let weights = Gguf::open(&path).unwrap().read("w").unwrap();
        let layer = QuantizedLinear::from_gguf(&device, &weights);
        let exact: Vec<f64> = weights.dequantize().into_iter().map(f64::from).collect();
        close(&layer.weight(), &exact, 1e-6, name);
        let x = Key::new(1).normal(&device, &[3, inputs]);
        let [expected, _] = by_hand(&layer, &x, &Array::zeros(&device, Scalar::F32, &[0, outputs]));
        close(&layer.forward(&x), &expected, 1e-5, name);
    }
    let path = folder.path().join("F32");
    std::fs::write(&path, gguf(1, 32, 0, &[0; 128])).unwrap();
    let error = QuantizedLinear::from_gguf(&device, &Gguf::open(&path).unwrap().read("w").unwrap());
    let error = error.quants.eval().unwrap_err().to_string();
    assert!(
        error.contains("`from_gguf`: weights of ") && error.ends_with(", expected Q4_0, Q4_1, Q8_0, Q6_K"),
        "{error}"
    );
}

#[test]
fn shapes_beside_the_matrix_stay() {
    let device = device();
    let linear = Linear::new(&device, Key::new(1), 32, 6);
    let bias = Key::new(4).normal(&device, &[6]);
    let layer = QuantizedLinear { bias: Some(bias.clone()), ..QuantizedLinear::int8(&linear, 32) };
    let x = Key::new(2).normal(&device, &[2, 5, 32]);
    let y = layer.forward(&x);
    assert_eq!(y.shape(), [2, 5, 6]);
    let plain = QuantizedLinear { bias: None, ..layer.clone() };
    close(&y, &wide(&(plain.forward(&x.reshape(&[10, 32])) + bias)), 1e-6, "with a bias");
    assert_eq!(layer.forward(&Array::zeros(&device, Scalar::F32, &[0, 32])).shape(), [0, 6]);
    let row = x.select(0, 0).select(0, 0);
    assert_eq!(layer.forward(&row).shape(), [6]);
    let names: Vec<String> = layer.parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["quants", "scales", "bias"]);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let device = device();
    let linear = Linear::new(&device, Key::new(1), 48, 6);
    let refused = |array: &Array, expected: &str| {
        let error = array.eval().unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    };
    let expected = "expected a power of two from 16 to 256 that divides them";
    refused(
        &QuantizedLinear::int8(&linear, 32).quants,
        &format!("`quantize`: groups of 32 of 48 inputs, {expected}"),
    );
    refused(
        &QuantizedLinear::int4(&linear, 8).scales,
        &format!("`quantize`: groups of 8 of 48 inputs, {expected}"),
    );
    let layer = QuantizedLinear::int8(&linear, 16);
    let x = |dtype, width: usize| Array::zeros(&device, dtype, &[2, width]);
    refused(
        &layer.forward(&x(Scalar::F32, 32)),
        "`quantized linear`: x is of f32 and shape [2, 32], and the layer has 48 inputs",
    );
    refused(
        &layer.forward(&x(Scalar::I32, 48)),
        "`quantized linear`: x is of i32 and shape [2, 48], and the layer has 48 inputs",
    );
    let without = QuantizedLinear { minima: None, ..QuantizedLinear::int4(&linear, 16) };
    refused(
        &without.forward(&x(Scalar::F32, 48)),
        "`quantized linear`: quants of u8 [6, 24] with scales of f32 [6, 3] and no minima",
    );
}
