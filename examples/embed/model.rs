//! A BERT encoder whose last layer's mean is a text's embedding.

use kiln::Device;
use kiln::array::nn::{Embedding, LayerNorm, Linear};
use kiln::array::{Array, Result};
use kiln_files::Safetensors;
use std::error::Error;
use std::fs;
use std::path::Path;

/// What of `config.json` the weights do not say.
struct Config {
    heads: usize,
    layers: usize,
    epsilon: f64,
}

impl Config {
    fn load(path: &Path) -> std::result::Result<Config, Box<dyn Error>> {
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        let json: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
        for (key, wanted) in
            [("model_type", "bert"), ("hidden_act", "gelu"), ("position_embedding_type", "absolute")]
        {
            let given = json[key].as_str().unwrap_or("nothing");
            if given != wanted {
                return Err(format!("{name}: {key} is {given}; this example has {wanted} alone").into());
            }
        }
        let number = |key: &str| {
            let number = json[key].as_u64().filter(|&n| (1..1 << 16).contains(&n));
            number.map(|n| n as usize).ok_or_else(|| format!("{name}: {key} is no number of them"))
        };
        let epsilon =
            json["layer_norm_eps"].as_f64().ok_or_else(|| format!("{name}: there is no epsilon"))?;
        Ok(Config { heads: number("num_attention_heads")?, layers: number("num_hidden_layers")?, epsilon })
    }
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attention_norm: LayerNorm,
    up: Linear,
    down: Linear,
    norm: LayerNorm,
}

pub struct Encoder {
    words: Embedding,
    places: Array,
    kind: Array,
    norm: LayerNorm,
    layers: Vec<Layer>,
    heads: usize,
}

impl Encoder {
    /// Reads `config.json` and `model.safetensors` of a folder.
    pub fn load(device: &Device, folder: &Path) -> std::result::Result<Encoder, Box<dyn Error>> {
        let config = Config::load(&folder.join("config.json"))?;
        let file = Safetensors::open(folder.join("model.safetensors"))?;
        let read = |name: &str| Ok::<_, kiln_files::Error>(Array::from_tensor(file.tensor(device, name)?));
        let linear = |name: &str| {
            let [weight, bias] = [format!("{name}.weight"), format!("{name}.bias")];
            Ok::<_, kiln_files::Error>(Linear { weight: read(&weight)?, bias: Some(read(&bias)?) })
        };
        let norm = |name: &str| {
            let [weight, bias] = [format!("{name}.weight"), format!("{name}.bias")];
            let [weight, bias] = [read(&weight)?, read(&bias)?];
            Ok::<_, kiln_files::Error>(LayerNorm { weight, bias, epsilon: config.epsilon })
        };
        let layers = (0..config.layers).map(|n| {
            let name = |part: &str| format!("encoder.layer.{n}.{part}");
            Ok(Layer {
                query: linear(&name("attention.self.query"))?,
                key: linear(&name("attention.self.key"))?,
                value: linear(&name("attention.self.value"))?,
                attended: linear(&name("attention.output.dense"))?,
                attention_norm: norm(&name("attention.output.LayerNorm"))?,
                up: linear(&name("intermediate.dense"))?,
                down: linear(&name("output.dense"))?,
                norm: norm(&name("output.LayerNorm"))?,
            })
        });
        let encoder = Encoder {
            words: Embedding { weight: read("embeddings.word_embeddings.weight")? },
            places: read("embeddings.position_embeddings.weight")?,
            kind: read("embeddings.token_type_embeddings.weight")?.select(0, 0),
            norm: norm("embeddings.LayerNorm")?,
            layers: layers.collect::<std::result::Result<_, kiln_files::Error>>()?,
            heads: config.heads,
        };
        let width = encoder.kind.len();
        match width % config.heads {
            0 => Ok(encoder),
            _ => Err(format!("{} heads do not divide a width of {width}", config.heads).into()),
        }
    }

    /// The most tokens of a text.
    pub fn places(&self) -> usize {
        self.places.shape().first().copied().unwrap_or(0)
    }

    /// The embeddings of texts by their tokens, one a row, each of length 1.
    pub fn embed(&self, device: &Device, texts: &[Vec<i32>]) -> Result<Array> {
        let (count, longest) = (texts.len(), texts.iter().map(Vec::len).max().unwrap_or(0));
        let padded = texts
            .iter()
            .flat_map(|text| text.iter().copied().chain(std::iter::repeat_n(0, longest - text.len())));
        let padded: Vec<i32> = padded.collect();
        let inside = texts.iter().flat_map(|text| (0..longest).map(|at| f32::from(at < text.len())));
        let inside: Vec<f32> = inside.collect();
        let tokens = Array::new(device, &padded, &[count, longest]);
        let inside = Array::new(device, &inside, &[count, longest]);
        let x = self.words.forward(&tokens) + self.places.slice(0, ..longest) + &self.kind;
        // What is added to scores: no token looks at what only fills up a row.
        let hidden = ((&inside - 1.0) * 1e9).unsqueeze(1).unsqueeze(1);
        let x = self.layers.iter().fold(self.norm.forward(&x), |x, layer| {
            let attended = layer.attended.forward(&self.attention(layer, &x, &hidden));
            let x = layer.attention_norm.forward(&(x + attended));
            let more = layer.down.forward(&layer.up.forward(&x).gelu());
            layer.norm.forward(&(x + more))
        });
        let weights = inside.unsqueeze(-1);
        let mean = (x * &weights).sum_axes(&[1]) / weights.sum_axes(&[1]);
        let length = mean.square().sum_keep(&[-1]).sqrt().maximum(1e-12);
        let embeddings = mean / length;
        embeddings.eval()?;
        Ok(embeddings)
    }

    /// What each token takes from the others, by heads.
    fn attention(&self, layer: &Layer, x: &Array, hidden: &Array) -> Array {
        let &[_, length, width] = x.shape() else { return x.clone() };
        let size = width / self.heads;
        let by_head = |layer: &Linear| {
            let heads = [-1, length as isize, self.heads as isize, size as isize];
            layer.forward(x).reshape(&heads).permute(&[0, 2, 1, 3])
        };
        let [query, key, value] = [&layer.query, &layer.key, &layer.value].map(by_head);
        let scores = query.matmul(&key.swap_axes(-1, -2)) / (size as f64).sqrt() + hidden;
        let all = [-1, length as isize, width as isize];
        scores.softmax(-1).matmul(&value).permute(&[0, 2, 1, 3]).reshape(&all)
    }
}
