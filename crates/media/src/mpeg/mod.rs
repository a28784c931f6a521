//! MPEG-1 (ISO/IEC 11172) and MPEG-2 (ISO/IEC 13818) syntax: streams, headers, codes.

pub(crate) mod anchors;
pub(crate) mod bits;
pub(crate) mod coefficients;
pub(crate) mod es;
pub(crate) mod headers;
pub(crate) mod ps;
pub(crate) mod sniff;
pub(crate) mod startcode;
pub(crate) mod unit;
pub(crate) mod vlc;
