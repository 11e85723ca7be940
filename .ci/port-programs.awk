# Writes each Rust program of a file's documentation into a file of its own, `DIR/NAME_LINE.md`, with
# `moka::` changed to `cortado::`. For `port`.
{
    if (markdown) {
        text = $0
    } else if (match($0, /^[ \t]*\/\/[\/!] ?/)) {
        text = substr($0, RLENGTH + 1)
    } else {
        inside = 0
        next
    }
    is_fence = text ~ /^[ \t]*```/
    if (is_fence && !inside) {
        info = text
        sub(/^[ \t]*```/, "", info)
        kept = info == "" || info ~ /^(rust|no_run|should_panic)/
        inside = 1
        out = sprintf("%s/%s_%d.md", dir, name, NR)
        if (kept) print "```" info > out
    } else if (is_fence) {
        if (kept) {
            print "```" > out
            close(out)
        }
        inside = 0
    } else if (inside && kept) {
        gsub(/moka::/, "cortado::", text)
        print text > out
    }
}
