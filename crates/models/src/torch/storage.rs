//! Element types, and values from the bytes of a storage.

use super::state_dict::Values;
use super::view::View;

/// The type of a tensor's elements in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dtype {
    /// 16-bit IEEE float.
    F16,
    /// The upper half of a 32-bit float.
    BF16,
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// Truth value, one byte.
    Bool,
    /// Unsigned byte.
    U8,
    /// Signed byte.
    I8,
    /// 16-bit integer.
    I16,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
}

impl Dtype {
    /// The type that `torch.{name}` holds.
    pub(super) fn of_storage(name: &str) -> Option<Self> {
        Some(match name {
            "HalfStorage" => Self::F16,
            "BFloat16Storage" => Self::BF16,
            "FloatStorage" => Self::F32,
            "DoubleStorage" => Self::F64,
            "BoolStorage" => Self::Bool,
            "ByteStorage" => Self::U8,
            "CharStorage" => Self::I8,
            "ShortStorage" => Self::I16,
            "IntStorage" => Self::I32,
            "LongStorage" => Self::I64,
            _ => return None,
        })
    }

    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::F16 | Self::BF16 | Self::I16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }
}

/// The order of the bytes of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// The values of a view of `bytes`, in the view's row-major order.
///
/// `bytes` holds as many elements of type `dtype` as the view was checked against.
pub(super) fn values(bytes: &[u8], dtype: Dtype, order: ByteOrder, view: &View) -> Values {
    match dtype {
        Dtype::F16 => Values::F32(gather(bytes, order, view, |b| half(u16::from_le_bytes(b)))),
        Dtype::BF16 => {
            Values::F32(gather(bytes, order, view, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)))
        }
        Dtype::F32 => Values::F32(gather(bytes, order, view, f32::from_le_bytes)),
        Dtype::F64 => Values::F64(gather(bytes, order, view, f64::from_le_bytes)),
        Dtype::Bool => Values::I64(gather(bytes, order, view, |[b]| i64::from(b != 0))),
        Dtype::U8 => Values::I64(gather(bytes, order, view, |[b]| i64::from(b))),
        Dtype::I8 => Values::I64(gather(bytes, order, view, |b| i64::from(i8::from_le_bytes(b)))),
        Dtype::I16 => Values::I64(gather(bytes, order, view, |b| i64::from(i16::from_le_bytes(b)))),
        Dtype::I32 => Values::I64(gather(bytes, order, view, |b| i64::from(i32::from_le_bytes(b)))),
        Dtype::I64 => Values::I64(gather(bytes, order, view, i64::from_le_bytes)),
    }
}

fn gather<T, const N: usize>(bytes: &[u8], order: ByteOrder, view: &View, decode: impl Fn([u8; N]) -> T) -> Vec<T> {
    let elements = bytes.as_chunks::<N>().0;
    let mut values = Vec::with_capacity(view.len());
    view.for_each(|position| {
        let mut element = elements[position];
        if order == ByteOrder::Big {
            element.reverse();
        }
        values.push(decode(element));
    });
    values
}

/// A 16-bit IEEE float, exactly.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let (exponent, mantissa) = (u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    match exponent {
        // Subnormal: a multiple of 2^-24.
        0 => {
            let magnitude = mantissa as f32 / (1u32 << 24) as f32;
            f32::from_bits(sign | magnitude.to_bits())
        }
        0x1f => f32::from_bits(sign | 0xff << 23 | mantissa << 13),
        // The exponent's bias is 15 in 16 bits and 127 in 32.
        _ => f32::from_bits(sign | (exponent + 112) << 23 | mantissa << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_has_its_value() {
        for bits in 0..=u16::MAX {
            let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
            let magnitude = match exponent {
                0 => mantissa * 2f64.powi(-24),
                0x1f if mantissa == 0.0 => f64::INFINITY,
                0x1f => f64::NAN,
                _ => (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
            };
            let found = half(bits);
            assert_eq!(found.is_sign_negative(), bits >= 0x8000, "{bits:#x}");
            assert!(f64::from(found.abs()) == magnitude || found.is_nan() && magnitude.is_nan(), "{bits:#x}: {found}");
        }
    }
}
