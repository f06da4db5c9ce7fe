//! Reads the fields of a payload, checking every length.

/// The payload ends before the field does, or a field has an impossible length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Truncated;

/// A cursor over a payload.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    data: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { data }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.data
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.data.first().copied()
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Truncated> {
        let (head, rest) = self.data.split_at_checked(length).ok_or(Truncated)?;
        self.data = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (head, rest) = self.data.split_first_chunk().ok_or(Truncated)?;
        self.data = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Truncated> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Truncated> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Truncated> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A length-encoded integer.
    pub(crate) fn lenenc(&mut self) -> Result<u64, Truncated> {
        Ok(match self.u8()? {
            n @ 0..=0xfa => u64::from(n),
            0xfc => u64::from(self.u16()?),
            0xfd => {
                let [a, b, c] = self.array()?;
                u64::from(u32::from_le_bytes([a, b, c, 0]))
            }
            0xfe => u64::from_le_bytes(self.array()?),
            // 0xfb is NULL in rows and a file request in answers; 0xff is an error.
            0xfb | 0xff => return Err(Truncated),
        })
    }

    pub(crate) fn lenenc_bytes(&mut self) -> Result<&'a [u8], Truncated> {
        let length = usize::try_from(self.lenenc()?).map_err(|_| Truncated)?;
        self.bytes(length)
    }

    /// Bytes up to a zero byte, which is consumed too.
    pub(crate) fn until_zero(&mut self) -> Result<&'a [u8], Truncated> {
        let length = self.data.iter().position(|b| *b == 0).ok_or(Truncated)?;
        let text = self.bytes(length)?;
        self.u8()?;
        Ok(text)
    }
}

/// Appends a length-encoded integer.
pub(crate) fn put_lenenc(out: &mut Vec<u8>, n: usize) {
    let bytes = (n as u64).to_le_bytes();
    match n {
        0..=0xfa => out.push(bytes[0]),
        0xfb..=0xffff => out.extend_from_slice(&[0xfc, bytes[0], bytes[1]]),
        0x1_0000..=0xff_ffff => out.extend_from_slice(&[0xfd, bytes[0], bytes[1], bytes[2]]),
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}
