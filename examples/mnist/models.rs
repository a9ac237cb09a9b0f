//! Four networks for images, from one layer to a transformer. Each has what the one before lacks.

use kiln::Device;
use kiln::array::nn::{Attention, Conv2d, Key, LayerNorm, Linear};
use kiln::array::{Array, Module};

/// The number of classes.
const CLASSES: usize = 10;

/// A network: images `[batch, rows, columns]` become logits `[batch, classes]`.
pub trait Network: Module {
    /// Makes one for images of `side` rows and columns.
    fn new(device: &Device, key: Key, side: usize) -> Self;

    /// The logits of images.
    fn forward(&self, images: &Array) -> Array;
}

/// A sum of the pixels for each class, with weights: Rosenblatt's perceptron of 1958, trained with
/// cross entropy.
#[derive(Module)]
pub struct Perceptron {
    layer: Linear,
}

impl Network for Perceptron {
    fn new(device: &Device, key: Key, side: usize) -> Perceptron {
        Perceptron { layer: Linear::new(device, key, side * side, CLASSES) }
    }

    fn forward(&self, images: &Array) -> Array {
        self.layer.forward(&flat(images))
    }
}

/// Two layers with a function between them that is not linear, so that sums of features count.
#[derive(Module)]
pub struct Mlp {
    features: Linear,
    classes: Linear,
}

impl Network for Mlp {
    fn new(device: &Device, key: Key, side: usize) -> Mlp {
        let [features, classes] = key.split();
        Mlp {
            features: Linear::new(device, features, side * side, 128),
            classes: Linear::new(device, classes, 128, CLASSES),
        }
    }

    fn forward(&self, images: &Array) -> Array {
        self.classes.forward(&self.features.forward(&flat(images)).relu())
    }
}

/// Convolutions: the same features at each place of an image, then features of these, then one sum.
#[derive(Module)]
pub struct Convolutional {
    edges: Conv2d,
    strokes: Conv2d,
    classes: Linear,
}

impl Network for Convolutional {
    fn new(device: &Device, key: Key, side: usize) -> Convolutional {
        let [edges, strokes, classes] = key.split();
        // Large images are halved once more, so that both kinds have few strokes.
        let stride = if side > 16 { 2 } else { 1 };
        let last = side.div_ceil(stride).div_ceil(2);
        Convolutional {
            edges: Conv2d::new(device, edges, 3, 1, 16).stride(stride),
            strokes: Conv2d::new(device, strokes, 3, 16, 32).stride(2),
            classes: Linear::new(device, classes, last * last * 32, CLASSES),
        }
    }

    fn forward(&self, images: &Array) -> Array {
        let edges = self.edges.forward(&images.unsqueeze(-1)).relu();
        self.classes.forward(&flat(&self.strokes.forward(&edges).relu()))
    }
}

/// A vision transformer (Dosovitskiy and others, "An Image is Worth 16x16 Words", 2021): square
/// patches are tokens, which attend to each other; the mean of all is classified.
#[derive(Module)]
pub struct Transformer {
    patches: Linear,
    places: Array,
    blocks: Vec<Block>,
    norm: LayerNorm,
    classes: Linear,
    patch: usize,
}

#[derive(Module)]
struct Block {
    before_attention: LayerNorm,
    attention: Attention,
    before_network: LayerNorm,
    up: Linear,
    down: Linear,
}

/// The extent of a patch's vector.
const WIDTH: usize = 48;

impl Network for Transformer {
    fn new(device: &Device, key: Key, side: usize) -> Transformer {
        let [patches, places, blocks, classes] = key.split();
        let patch = if side.is_multiple_of(4) && side > 16 { 4 } else { 2 };
        let count = (side / patch) * (side / patch);
        Transformer {
            patches: Linear::new(device, patches, patch * patch, WIDTH),
            places: places.normal(device, &[count, WIDTH]) * 0.02,
            blocks: (0..2).map(|layer| Block::new(device, blocks.fold(layer))).collect(),
            norm: LayerNorm::new(device, WIDTH),
            classes: Linear::new(device, classes, WIDTH, CLASSES),
            patch,
        }
    }

    fn forward(&self, images: &Array) -> Array {
        let (count, patch) = (images.shape()[0], self.patch);
        let side = images.shape()[1] / patch;
        let parts = images.reshape(&[count, side, patch, side, patch]);
        let patches = parts.swap_axes(2, 3).reshape(&[count, side * side, patch * patch]);
        let x = self.patches.forward(&patches) + &self.places;
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x));
        self.classes.forward(&self.norm.forward(&x).mean_axes(&[1]))
    }
}

impl Block {
    fn new(device: &Device, key: Key) -> Block {
        let [attention, up, down] = key.split();
        Block {
            before_attention: LayerNorm::new(device, WIDTH),
            attention: Attention::new(device, attention, WIDTH, 4),
            before_network: LayerNorm::new(device, WIDTH),
            up: Linear::new(device, up, WIDTH, 2 * WIDTH),
            down: Linear::normal(device, down, 2 * WIDTH, WIDTH, 0.02),
        }
    }

    fn forward(&self, x: &Array) -> Array {
        let x = x + self.attention.forward(&self.before_attention.forward(x));
        let inside = self.up.forward(&self.before_network.forward(&x)).gelu();
        &x + self.down.forward(&inside)
    }
}

/// Images as vectors.
fn flat(images: &Array) -> Array {
    images.reshape(&[images.shape()[0] as isize, -1])
}
