//! The redrawn part of the terminal: a block of lines at the bottom of the output.
//!
//! Hand-written rather than a library, because the needs are few: no line wider than the terminal,
//! one write per frame (no flicker), a clean screen afterwards, and permanent lines above the
//! block.

use std::fmt::Write as _;
use std::io::{self, Write};

mod layout;

pub use layout::{bar, fit, shorten_left, visible_width};

/// Assumed if the terminal does not report its size.
const DEFAULT_SIZE: Size = Size {
    columns: 80,
    rows: 24,
};
/// Narrower terminals are drawn as if this wide. Their lines may wrap.
const MIN_COLUMNS: u16 = 20;
/// Synchronized output: terminals that support it show the frame at once, never half drawn. Others
/// ignore it.
const BEGIN_FRAME: &str = "\x1b[?2026h";
const END_FRAME: &str = "\x1b[?2026l";

/// Size of a terminal in character cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Cells per line.
    pub columns: u16,
    /// Lines on the screen.
    pub rows: u16,
}

/// Size of the terminal on stderr; 80×24 if unknown.
pub fn stderr_size() -> Size {
    match rustix::termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size {
            columns: size.ws_col.max(MIN_COLUMNS),
            rows: size.ws_row,
        },
        _ => DEFAULT_SIZE,
    }
}

/// A block of lines below everything printed so far.
#[derive(Debug)]
pub struct Block<W: Write> {
    out: W,
    /// Widths of the lines on the screen now.
    drawn: Vec<usize>,
}

impl<W: Write> Block<W> {
    /// An empty block. Writes nothing yet.
    pub fn new(out: W) -> Self {
        Self {
            out,
            drawn: Vec::new(),
        }
    }

    /// Replaces the previous frame with `lines`. Leaves the cursor at the end of the last one.
    ///
    /// Lines must not be wider than `size.columns - 1`: see [`fit`]. At most `size.rows - 1` of
    /// them are drawn.
    ///
    /// # Errors
    /// The write to the terminal failed.
    pub fn draw(&mut self, lines: &[String], size: Size) -> io::Result<()> {
        let lines = &lines[..lines
            .len()
            .min(usize::from(size.rows.saturating_sub(1)).max(1))];
        let mut frame = String::from(BEGIN_FRAME);
        self.push_home(&mut frame, size);
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                frame.push('\n');
            }
            frame.push_str(line);
            frame.push_str("\x1b[K");
        }
        frame.push_str("\x1b[J");
        frame.push_str(END_FRAME);
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()?;
        self.drawn = lines.iter().map(|line| visible_width(line)).collect();
        Ok(())
    }

    /// Clears the block and prints `text` and a newline in its place. The next frame goes below it.
    ///
    /// # Errors
    /// The write to the terminal failed.
    pub fn print_above(&mut self, text: &str, size: Size) -> io::Result<()> {
        let mut frame = String::new();
        self.push_home(&mut frame, size);
        frame.push_str("\x1b[J");
        frame.push_str(text);
        frame.push('\n');
        self.drawn.clear();
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    /// Clears the block, and leaves the cursor where it began.
    ///
    /// # Errors
    /// The write to the terminal failed.
    pub fn clear(&mut self, size: Size) -> io::Result<()> {
        if self.drawn.is_empty() {
            return Ok(());
        }
        let mut frame = String::new();
        self.push_home(&mut frame, size);
        frame.push_str("\x1b[J");
        self.drawn.clear();
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    /// Moves the cursor to the start of the block. A terminal that became narrower has wrapped
    /// lines, so a line may now take several rows.
    fn push_home(&self, frame: &mut String, size: Size) {
        let columns = usize::from(size.columns).max(1);
        let rows: usize = self
            .drawn
            .iter()
            .map(|width| width.div_ceil(columns).max(1))
            .sum();
        frame.push('\r');
        if rows > 1 {
            let _ = write!(frame, "\x1b[{}A", rows - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size {
        columns: 80,
        rows: 24,
    };

    fn written(block: Block<Vec<u8>>) -> String {
        String::from_utf8(block.out).expect("only text is drawn")
    }

    #[test]
    fn the_second_frame_goes_over_the_first() {
        let mut block = Block::new(Vec::new());
        block
            .draw(&["one".into(), "two".into(), "three".into()], SIZE)
            .expect("a vector takes it");
        block
            .draw(&["four".into()], SIZE)
            .expect("a vector takes it");
        let text = written(block);
        assert_eq!(
            text,
            "\x1b[?2026h\rone\x1b[K\ntwo\x1b[K\nthree\x1b[K\x1b[J\x1b[?2026l\
             \x1b[?2026h\r\x1b[2Afour\x1b[K\x1b[J\x1b[?2026l"
        );
    }

    #[test]
    fn a_narrower_terminal_has_wrapped_the_lines() {
        let mut block = Block::new(Vec::new());
        block
            .draw(&["x".repeat(79), "y".repeat(30)], SIZE)
            .expect("a vector takes it");
        block
            .clear(Size {
                columns: 40,
                rows: 24,
            })
            .expect("a vector takes it");
        assert!(written(block).ends_with("\r\x1b[2A\x1b[J"));
    }

    #[test]
    fn never_more_lines_than_the_terminal_has() {
        let mut block = Block::new(Vec::new());
        let lines: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        block
            .draw(
                &lines,
                Size {
                    columns: 80,
                    rows: 5,
                },
            )
            .expect("a vector takes it");
        assert_eq!(written(block).matches('\n').count(), 3);
    }

    #[test]
    fn clearing_nothing_writes_nothing() {
        let mut block = Block::new(Vec::new());
        block.clear(SIZE).expect("a vector takes it");
        assert!(written(block).is_empty());
    }
}
