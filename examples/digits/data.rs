//! The images: UCI handwritten digits, which come with the example.

/// Images of one size with their labels; pixels are 0 to 1.
pub struct Set {
    /// Pixels of an image.
    pub size: usize,
    pub pixels: Vec<f32>,
    pub labels: Vec<i32>,
}

impl Set {
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    pub fn image(&self, i: usize) -> &[f32] {
        &self.pixels[i * self.size..(i + 1) * self.size]
    }
}

/// The training and the test images of the UCI digits (see `data/LICENSE.md`).
pub fn digits() -> Result<(Set, Set), String> {
    let text = include_str!("data/digits.csv");
    let empty = || Set { size: 64, pixels: Vec::new(), labels: Vec::new() };
    let (mut train, mut test) = (empty(), empty());
    for (number, line) in text.lines().enumerate().skip(1) {
        let bad = |what: &str| format!("digits.csv, line {}: {what}", number + 1);
        let mut fields = line.split(',');
        let set = match fields.next() {
            Some("train") => &mut train,
            Some("test") => &mut test,
            _ => return Err(bad("the first field is neither `train` nor `test`")),
        };
        let numbers: Vec<u8> =
            fields.map(str::parse::<u8>).collect::<Result<_, _>>().map_err(|e| bad(&e.to_string()))?;
        let (label, pixels) = numbers.split_first().ok_or_else(|| bad("no label"))?;
        if pixels.len() != 64 {
            return Err(bad(&format!("{} pixels instead of 64", pixels.len())));
        }
        set.labels.push(i32::from(*label));
        set.pixels.extend(pixels.iter().map(|&p| f32::from(p) / 16.0));
    }
    Ok((train, test))
}
