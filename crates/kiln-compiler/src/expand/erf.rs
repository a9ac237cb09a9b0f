//! The error function.

use super::math::Math;
use kiln_ir::{UnaryOp, Value};

/// msun s_erf.c, highest power first: numerator and denominator on [0, 0.84375], [0.84375, 1.25],
/// [1.25, 1/0.35], [1/0.35, 6].
const NEAR: [&[f64]; 2] = [
    &[
        -2.376_301_665_665_016e-5,
        -5.770_270_296_489_442e-3,
        -2.848_174_957_559_851e-2,
        -3.250_421_072_470_015e-1,
        1.283_791_670_955_125_6e-1,
    ],
    &[
        -3.960_228_278_775_368e-6,
        1.324_947_380_043_216_4e-4,
        5.081_306_281_875_766e-3,
        6.502_224_998_876_73e-2,
        3.979_172_239_591_553_5e-1,
        1.0,
    ],
];
const MIDDLE: [&[f64]; 2] = [
    &[
        -2.166_375_594_868_791e-3,
        3.547_830_432_561_824e-2,
        -1.108_946_942_823_966_8e-1,
        3.183_466_199_011_617_5e-1,
        -3.722_078_760_357_013e-1,
        4.148_561_186_837_483e-1,
        -2.362_118_560_752_659_4e-3,
    ],
    &[
        1.198_449_984_679_910_7e-2,
        1.363_708_391_202_905e-2,
        1.261_712_198_087_616_4e-1,
        7.182_865_441_419_627e-2,
        5.403_979_177_021_71e-1,
        1.064_208_804_008_442_3e-1,
        1.0,
    ],
];
const FAR: [&[f64]; 2] = [
    &[
        -9.814_329_344_169_145,
        -8.128_743_550_630_66e1,
        -1.846_050_929_067_110_4e2,
        -1.623_966_694_625_734_7e2,
        -6.237_533_245_032_601e1,
        -1.055_862_622_532_329_1e1,
        -6.938_585_727_071_818e-1,
        -9.864_944_034_847_148e-3,
    ],
    &[
        -6.042_441_521_485_81e-2,
        6.570_249_770_319_282,
        1.086_350_055_417_794_4e2,
        4.290_081_400_275_678e2,
        6.453_872_717_332_679e2,
        4.345_658_774_752_292_3e2,
        1.376_577_541_435_190_4e2,
        1.965_127_166_743_925_7e1,
        1.0,
    ],
];
const FARTHEST: [&[f64]; 2] = [
    &[
        -4.835_191_916_086_514e2,
        -1.025_095_131_611_077_2e3,
        -6.375_664_433_683_896e2,
        -1.606_363_848_558_219_2e2,
        -1.775_795_491_775_475_2e1,
        -7.992_832_376_805_23e-1,
        -9.864_942_924_700_1e-3,
    ],
    &[
        -2.244_095_244_658_582e1,
        4.745_285_412_069_554e2,
        2.553_050_406_433_164_4e3,
        3.199_858_219_508_595_5e3,
        1.536_729_586_084_437e3,
        3.257_925_129_965_739e2,
        3.033_806_074_348_246e1,
        1.0,
    ],
];

impl Math<'_, '_> {
    pub(super) fn erf(&mut self, x: Value) -> Value {
        if self.is_double() { self.erf_double(x) } else { self.erf_single(x) }
    }

    /// Below 15/16, x and an even polynomial times x; above, 1 - 2^(a p(a)), whose power is the
    /// complement. Its exponent falls for all larger a, so that the result is 1 in the end. Both
    /// polynomials were fitted for the least of greatest errors, on [0, 15/16] and [15/16, 4.1].
    fn erf_single(&mut self, x: Value) -> Value {
        let (a, z) = (self.abs(x), self.mul(x, x));
        let near = self.poly(
            z,
            &[
                -5.919_418_763_369_322e-4,
                4.979_130_811_989_307e-3,
                -2.675_703_540_444_374e-2,
                1.128_155_216_574_668_9e-1,
                -3.761_246_800_422_668_5e-1,
                1.283_791_512_251_25e-1,
            ],
        );
        let near = self.fma(near, x, x);
        let p = self.poly(
            a,
            &[
                -1.752_928_437_781_520_2e-5,
                4.789_559_461_642_056_7e-4,
                -5.308_722_611_516_714e-3,
                3.439_489_006_996_155e-2,
                -1.533_988_863_229_751_6e-1,
                -9.162_503_480_911_255e-1,
                -1.628_315_091_133_117_7,
            ],
        );
        let exponent = self.mul(p, a);
        let (complement, one) = (self.b.unary(UnaryOp::Exp2, exponent), self.c(1.0));
        let far = self.sub(one, complement);
        let far = self.copy_sign(far, x);
        // NaN is not above.
        let is_far = self.gt(a, 0.9375);
        self.select(is_far, far, near)
    }

    fn erf_double(&mut self, x: Value) -> Value {
        let (a, one) = (self.abs(x), self.c(1.0));
        let z = self.mul(x, x);
        let ratio = self.ratio(z, NEAR);
        let near = self.fma(x, ratio, x);

        let (minus_one, offset) = (self.c(-1.0), self.c(8.450_629_115_104_675e-1));
        let s = self.add(a, minus_one);
        let ratio = self.ratio(s, MIDDLE);
        let middle = self.add(ratio, offset);

        let t = self.div(one, z);
        let (far, farthest) = (self.ratio(t, FAR), self.ratio(t, FARTHEST));
        let is_far = self.lt(a, 1.0 / 0.35);
        let correction = self.select(is_far, far, farthest);
        let (shift, minus) = (self.c(-0.5625), self.neg(z));
        let exponent = self.add(minus, shift);
        let exponent = self.add(exponent, correction);
        let e = self.exp(exponent);
        let complement = self.div(e, a);
        let tail = self.sub(one, complement);

        let is_middle = self.lt(a, 1.25);
        let far = self.select(is_middle, middle, tail);
        self.by_range(x, a, near, far, 0.843_75, 6.0)
    }

    fn ratio(&mut self, x: Value, [numerator, denominator]: [&[f64]; 2]) -> Value {
        let (p, q) = (self.poly(x, numerator), self.poly(x, denominator));
        self.div(p, q)
    }

    /// `near` below `low`, `far` with the sign of x up to `high`, then ±1; NaN is kept.
    fn by_range(&mut self, x: Value, a: Value, near: Value, far: Value, low: f64, high: f64) -> Value {
        let one = self.c(1.0);
        let saturated = self.gt(a, high);
        let far = self.select(saturated, one, far);
        let far = self.copy_sign(far, x);
        let is_near = self.lt(a, low);
        self.select(is_near, near, far)
    }
}
