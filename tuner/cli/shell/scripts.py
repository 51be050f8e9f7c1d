"""What `--install-completion` gives bash and zsh instead of typer's own scripts, which fall short of what people see elsewhere:
bash takes words apart at `:` and `=`, and in zsh the first TAB of a session did nothing."""

from __future__ import annotations

_BASH = """
%(complete_func)s() {
    local IFS=$' \\t\\n' line="${COMP_LINE:0:COMP_POINT}" words head="" mark one
    read -ra words <<< "$line"
    [[ $line == *[[:blank:]] ]] && words+=("")
    local current=$(( ${#words[@]} - 1 ))
    local last="${words[current]}"
    for mark in : =; do  # of a word with such signs only what stands behind the last of them is replaced
        [[ $COMP_WORDBREAKS == *$mark* && $last == *$mark* ]] || continue
        one="${last%%"$mark"*}$mark"
        (( ${#one} > ${#head} )) && head="$one"
    done
    IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="$line" COMP_CWORD="$current" %(autocomplete_var)s=complete_bash "$1" ) )
    COMPREPLY=( "${COMPREPLY[@]#"$head"}" )
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace 2> /dev/null
    return 0
}

complete -o default -F %(complete_func)s %(prog_name)s
"""

# zsh runs the file at the first TAB, as the function that it is called after.
_ZSH = """
#compdef %(prog_name)s

%(complete_func)s() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" %(autocomplete_var)s=complete_zsh %(prog_name)s)
}

if [[ $funcstack[1] == _%(prog_name)s ]]; then
  %(complete_func)s "$@"
else
  compdef %(complete_func)s %(prog_name)s
fi
"""


def use_our_scripts() -> None:
    """Has typer write these. It has no other place for them than a table of its own; where that is gone, its scripts serve."""
    from typer import _completion_shared

    scripts = getattr(_completion_shared, "_completion_scripts", {})
    scripts.update(bash=_BASH, zsh=_ZSH)
