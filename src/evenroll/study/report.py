def write_report(done, results, path, scale):
    from evenroll.study.claims import Evidence, claims

    for c in claims(Evidence({t.name: t for t in done}, results)) if done[-1].name == "theory" else []:
        print(c)
    return path
