/// Adds `src` to the beginning of `dst`, octet by octet in GF(2); `dst` must be as long or longer.
pub(crate) fn xor_into(dst: &mut [u8], src: &[u8]) {
    for (to, from) in dst[..src.len()].iter_mut().zip(src) {
        *to ^= from;
    }
}
