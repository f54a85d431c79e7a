//! The instructions of pickles: those that weights need, and the names of the others.

macro_rules! opcodes {
    ($($name:ident = $code:literal)*) => {
        $(pub(super) const $name: u8 = $code;)*
    };
}

opcodes! {
    PROTO = 0x80
    FRAME = 0x95
    STOP = b'.'
    MARK = b'('
    NONE = b'N'
    NEWTRUE = 0x88
    NEWFALSE = 0x89
    BININT = b'J'
    BININT1 = b'K'
    BININT2 = b'M'
    LONG1 = 0x8a
    BINFLOAT = b'G'
    BINUNICODE = b'X'
    SHORT_BINUNICODE = 0x8c
    BINSTRING = b'T'
    SHORT_BINSTRING = b'U'
    BINBYTES = b'B'
    SHORT_BINBYTES = b'C'
    EMPTY_TUPLE = b')'
    TUPLE = b't'
    TUPLE1 = 0x85
    TUPLE2 = 0x86
    TUPLE3 = 0x87
    EMPTY_LIST = b']'
    APPEND = b'a'
    APPENDS = b'e'
    EMPTY_DICT = b'}'
    SETITEM = b's'
    SETITEMS = b'u'
    BINGET = b'h'
    LONG_BINGET = b'j'
    BINPUT = b'q'
    LONG_BINPUT = b'r'
    MEMOIZE = 0x94
    GLOBAL = b'c'
    STACK_GLOBAL = 0x93
    REDUCE = b'R'
    NEWOBJ = 0x81
    BUILD = b'b'
    BINPERSID = b'Q'
}

/// The name of an instruction that is refused, as Python's `pickletools` writes it.
pub(super) fn refused_name(code: u8) -> String {
    let name = match code {
        b'0' => "POP",
        b'1' => "POP_MARK",
        b'2' => "DUP",
        b'F' => "FLOAT",
        b'I' => "INT",
        b'L' => "LONG",
        b'P' => "PERSID",
        b'S' => "STRING",
        b'V' => "UNICODE",
        b'd' => "DICT",
        b'g' => "GET",
        b'i' => "INST",
        b'l' => "LIST",
        b'o' => "OBJ",
        b'p' => "PUT",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        0x8b => "LONG4",
        0x8d => "BINUNICODE8",
        0x8e => "BINBYTES8",
        0x8f => "EMPTY_SET",
        0x90 => "ADDITEMS",
        0x91 => "FROZENSET",
        0x92 => "NEWOBJ_EX",
        0x96 => "BYTEARRAY8",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => return format!("{code:#04x}"),
    };
    name.to_owned()
}
