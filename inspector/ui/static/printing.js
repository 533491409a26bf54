// Part of Bench: what is printed. The page is laid out again for paper - as wide as a sheet, light, all lines instead of those
// in sight - and put back afterwards.

const MOST_PRINTED = 3000;  // lines; more would be dozens of pages

class Printing {
  listenPrint() {
    addEventListener('beforeprint', () => this.toPaper());
    addEventListener('afterprint', () => this.toScreen());
  }
  toPaper() {
    if (this.root.classList.contains('printing')) return;
    this.wasDark = document.body.classList.contains('dark');
    document.body.classList.remove('dark');
    this.root.classList.add('printing');
    this.draw(true);
    for (const [grid] of this.spots()) {
      const lines = grid.top[grid.model.rows], most = Math.min(lines, MOST_PRINTED);
      grid.view.style.height = most * LINE + 'px';
      grid.paint();
      if (most < lines) { this.printNote = el('p', 'ti-note ti-printnote', t('print_cut', { n: number(most), of: number(lines) })); grid.view.after(this.printNote); }
    }
  }
  toScreen() {
    if (!this.root.classList.contains('printing')) return;
    if (this.printNote) this.printNote.remove();
    this.root.classList.remove('printing');
    document.body.classList.toggle('dark', this.wasDark);
    for (const grid of [this.grid, this.second]) grid.view.style.height = '';
    this.draw(true);
  }
}
