//! The dictionary of SPDY/3 for the compression of headers (section 2.6.10.1 of its specification).

/// The names and values that precede [`REST`], each after its length in four bytes.
const WORDS: [&str; 65] = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

const REST: &str = "\
     100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Author\
     itative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 No\
     t Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Au\
     g Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,\
     image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,def\
     late,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// Returns the dictionary.
pub(super) fn dictionary() -> Vec<u8> {
    let mut dictionary = Vec::with_capacity(1423);
    for word in WORDS {
        dictionary.extend_from_slice(&u32::try_from(word.len()).unwrap_or_default().to_be_bytes());
        dictionary.extend_from_slice(word.as_bytes());
    }
    dictionary.extend_from_slice(REST.as_bytes());
    dictionary
}

#[cfg(test)]
mod tests {
    #[test]
    fn dictionary_has_the_checksum_of_the_specification() {
        let (a, b) = super::dictionary().iter().fold((1u32, 0u32), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65_521;
            (a, (b + a) % 65_521)
        });
        assert_eq!(b << 16 | a, 0xe3c6_a7c2);
    }
}
