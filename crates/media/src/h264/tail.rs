use h264_reader::rbsp::{BitRead, BitReaderError, Integer, Primitive};

/// Reads a parameter set as decoders do: what follows its last syntax element is not looked at.
///
/// Some cameras write bytes behind `rbsp_trailing_bits()` (7.3.2.11), and some cut them short.
pub(super) struct IgnoreTail<R>(pub R);

impl<R: BitRead> BitRead for IgnoreTail<R> {
    fn read_ue(&mut self, name: &'static str) -> Result<u32, BitReaderError> {
        self.0.read_ue(name)
    }

    fn read_se(&mut self, name: &'static str) -> Result<i32, BitReaderError> {
        self.0.read_se(name)
    }

    fn read_bit(&mut self, name: &'static str) -> Result<bool, BitReaderError> {
        self.0.read_bit(name)
    }

    fn read<const BITS: u32, I: Integer>(
        &mut self,
        name: &'static str,
    ) -> Result<I, BitReaderError> {
        self.0.read::<BITS, I>(name)
    }

    fn read_var<I: Integer>(
        &mut self,
        bit_count: u32,
        name: &'static str,
    ) -> Result<I, BitReaderError> {
        self.0.read_var(bit_count, name)
    }

    fn read_to<V: Primitive>(&mut self, name: &'static str) -> Result<V, BitReaderError> {
        self.0.read_to(name)
    }

    fn skip(&mut self, bit_count: u32, name: &'static str) -> Result<(), BitReaderError> {
        self.0.skip(bit_count, name)
    }

    fn byte_aligned(&self) -> bool {
        self.0.byte_aligned()
    }

    /// Never: the elements that a PPS may end with (`transform_8x8_mode_flag` and those behind it) are of no
    /// use for a slice header, and bytes behind the PPS would be taken for them.
    fn has_more_rbsp_data(&mut self, _: &'static str) -> Result<bool, BitReaderError> {
        Ok(false)
    }

    fn finish_rbsp(self) -> Result<(), BitReaderError> {
        Ok(())
    }

    fn finish_sei_payload(self) -> Result<(), BitReaderError> {
        Ok(())
    }
}
